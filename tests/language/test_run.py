"""`python run.py task=language` end to end: trained, scored, asked, continued, compared."""

from __future__ import annotations

import csv
import json
import re
import shutil
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from reloop import main as run
from tests.language.tiny import WORDS, only_run


def test_one_command_trains_scores_and_asks(
    capsys: pytest.CaptureFixture[str], undrawn: dict[str, Figure]
) -> None:
    assert run.main(WORDS) == 0
    out = capsys.readouterr().out
    assert "step 60/60" in out
    tokens = len(Path("text.txt").read_bytes()) // 10  # of each of ten documents, about
    held_out = re.search(r"held out are ([\d,]+) \(20%, 2 documents\)", out)
    assert held_out is not None
    assert int(held_out[1].replace(",", "")) == pytest.approx(2 * tokens, rel=0.1)
    assert "bits per byte, loop" in out
    solvers = [line.split() for line in out.splitlines() if line.startswith("  5-gram")]
    assert len(solvers) == 1
    texts = json.loads((only_run() / "evaluation.json").read_text())["language"]["texts"]
    assert solvers[0][1] == f"{texts['held_out']['solvers']['5-gram']['mean'][0]:.4g}"
    (axes,) = undrawn["error_by_examples"].axes
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("tokens before", "nats a token")
    assert axes.get_yscale() == "linear"
    assert "predicting zero" not in {text.get_text() for text in axes.texts}
    assert "3,072 parameters, 10,240 in embedding and head" in out
    losses = [json.loads(line) for line in (only_run() / "metrics.jsonl").read_text().splitlines()]
    records = [line["loss"] for line in losses if "loss" in line]
    assert records[-1] < records[0] - 0.5
    # Texts and questions are asked of a run that is there.
    Path("eval").mkdir()
    shutil.copy("text.txt", "eval/more.txt")
    question = {"query": "the a sat on the", "choices": ["mat", "xyz"], "gold": 0}
    Path("eval/mat.jsonl").write_text(f"{json.dumps(question)}\n" * 3)
    again = ["action=evaluate", f"run={only_run()}", "task.eval=eval"]
    assert run.main(again) == 0
    out = capsys.readouterr().out
    assert "step" not in out.replace("steps", "")
    assert "more.txt" in out
    assert "mat (choice)" in out
    result = json.loads((only_run() / "evaluation.json").read_text())["language"]
    assert result["questions"]["mat.jsonl"]["accuracy"]["mean"] == [1.0, 1.0, 1.0]
    assert set(result["texts"]) == {"held_out", "more.txt"}
    assert len(result["texts"]["more.txt"]["bits_per_byte"]["mean"]) == 3
    # A further evaluation adds to it.
    assert run.main([*again[:2], "evaluation.baselines=[ngram_1]"]) == 0
    together = json.loads((only_run() / "evaluation.json").read_text())["language"]
    assert set(together["texts"]) == {"held_out", "more.txt"}
    assert set(together["texts"]["held_out"]["solvers"]) == {"1-gram", "5-gram"}
    assert together["texts"]["more.txt"] == result["texts"]["more.txt"]
    assert together["questions"] == result["questions"]


def test_a_text_is_continued(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run.main(WORDS) == 0
    capsys.readouterr()
    words = ["action=generate", f"run={only_run()}", "prompt=the a, [sat]", "tokens=40"]
    assert run.main([*words, "seed=1", "samples=2"]) == 0
    out = capsys.readouterr().out
    first, second = out.removesuffix("\n\n").split("\n\nthe a, [sat]", 1)
    assert first.startswith("the a, [sat]")
    assert first.removeprefix("the a, [sat]") != second
    assert run.main([*words, "seed=1"]) == 0
    assert capsys.readouterr().out == f"{first}\n\n"
    # From another folder the text is found where it was.
    path, here = only_run().absolute(), Path.cwd()
    (here / "elsewhere").mkdir()
    monkeypatch.chdir(here / "elsewhere")
    assert run.main(["action=evaluate", f"run={path}", "evaluation.seed=3"]) == 0
    assert "bits per byte" in capsys.readouterr().out
    monkeypatch.chdir(here)
    Path("text.txt").unlink()  # the model needs it no more
    assert run.main([*words, "temperature=0", "loops=3"]) == 0
    assert run.main([*words[:2], f"prompt={'x' * 20}"]) == 2
    assert (
        "prompt is 21 tokens with the start token, and the model has 16" in capsys.readouterr().err
    )


def test_runs_are_compared_and_listed_by_bits_per_byte(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run.main(["-m", *WORDS, "seed=0,1"]) == 0
    paths = sorted(Path("runs").glob("language-*"))
    evaluations = [json.loads((path / "evaluation.json").read_text()) for path in paths]
    bits = [each["language"]["texts"]["held_out"]["bits_per_byte"] for each in evaluations]
    means = [band["mean"][1] for band in bits]  # after b = 2 loops
    capsys.readouterr()
    assert run.main(["action=list", "tables.format=csv"]) == 0
    rows = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    assert sorted(float(row["error"]) for row in rows) == sorted(means)
    names = ",".join(map(str, paths))
    assert run.main(["action=compare", f"runs=[{names}]", "tables.format=markdown"]) == 0
    out = capsys.readouterr().out
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in out.splitlines()]
    first, second = (row for row in cells if row and row[0].startswith("looped, 2 loops"))
    assert [float(row[1]) for row in (first, second)] == pytest.approx(means, rel=1e-3)
    assert float(second[3]) == pytest.approx(means[1] - means[0], rel=1e-2)
    # Both read the same blocks, some of which are harder for both: the difference is surer.
    low, high = map(float, second[4].split(" to "))
    width = bits[0]["high"][1] - bits[0]["low"][1] + bits[1]["high"][1] - bits[1]["low"][1]
    assert 0 < high - low < width
    (solver,) = (row for row in cells if row and "5-gram" in row[0])
    by_tokens = next(iter(evaluations))["by_examples"]["ngram_5"]["mean"]
    assert float(solver[5]) == pytest.approx(sum(by_tokens) / len(by_tokens), rel=1e-3)
