"""`python run.py task=language` end to end: trained, scored, continued, compared; what a run
keeps of its text, and wrong starts, one line each."""

import csv
import json
import re
import shutil
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from looplab.conf.compose import commands
from looplab.evaluation.evaluation import Evaluation
from looplab.evaluation.export.export import export
from looplab.evaluation.load import load_run
from looplab.show.card import card
from looplab.show.report import report
from looplab.tasks.language.tokens import make_tokenizer
from looplab.training import train
from looplab.training.run_folder.checkpoint import snapshots_of
from looplab.training.run_folder.status import status_of
from tests.conftest import Command, Refused
from tests.language.conftest import WORDS, only_run
from tests.training.tiny import interrupted


def test_one_command_trains_and_scores(command: Command, undrawn: dict[str, Figure]) -> None:
    out = command(*WORDS)
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
    # Texts are read by a run that is there.
    Path("eval").mkdir()
    shutil.copy("text.txt", "eval/more.txt")
    Path("eval/lines.jsonl").write_text('{"text": "the a sat on the mat"}\n' * 3)
    again = ["action=evaluate", f"run={only_run()}", "task.eval=eval"]
    out = command(*again)
    assert "step" not in out.replace("steps", "")
    assert "more.txt" in out
    assert "lines.jsonl" in out
    result = json.loads((only_run() / "evaluation.json").read_text())["language"]
    assert set(result["texts"]) == {"held_out", "lines.jsonl", "more.txt"}
    assert len(result["texts"]["more.txt"]["bits_per_byte"]["mean"]) == 3
    # A further evaluation is shown in its place.
    command(*again[:2], "evaluation.baselines=[ngram_1]")
    shown = json.loads((only_run() / "evaluation.json").read_text())
    assert set(shown["language"]["texts"]) == {"held_out"}
    assert set(shown["language"]["texts"]["held_out"]["solvers"]) == {"1-gram"}


def test_a_run_of_an_earlier_version_had_questions(command: Command) -> None:
    """Their settings, and their answers in an evaluation, are passed over."""
    command(*WORDS)
    path = only_run() / "config.yaml"
    text = path.read_text()
    path.write_text(text.replace("evaluation:\n", "evaluation:\n  questions: 7\n  shots: 5\n"))
    assert "shots" in path.read_text()
    assert load_run(only_run()).config == commands(WORDS)[0].config
    result = json.loads((only_run() / "evaluation.json").read_text())
    tables = report(Evaluation.read(result))
    result["language"]["questions"] = {"piqa.jsonl": {"kind": "choice", "accuracy": {}}}
    assert report(Evaluation.read(result)) == tables


def test_a_text_is_continued(
    command: Command,
    refused: Refused,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    command(*WORDS)
    words = ["action=generate", f"run={only_run()}", "prompt=the a, [sat]", "tokens=40"]
    texts = []
    for seed in (1, 1, 2):
        texts.append(command(*words, f"seed={seed}"))
    assert texts[0].startswith("the a, [sat]")
    assert texts[0] == texts[1] != texts[2]
    # From another folder the text is found where it was.
    path, here = only_run().absolute(), Path.cwd()
    (here / "elsewhere").mkdir()
    monkeypatch.chdir(here / "elsewhere")
    assert "bits per byte" in command("action=evaluate", f"run={path}", "evaluation.seed=3")
    monkeypatch.chdir(here)
    Path("text.txt").unlink()  # the model needs it no more
    command(*words, "temperature=0", "loops=3", "shared=true")
    err = refused(*words[:2], f"prompt={'x' * 20}")
    assert "prompt is 21 tokens with the start token, and the model has 16" in err


def test_runs_of_one_tokeniser_are_compared(command: Command) -> None:
    """Each keeps the tokeniser in a file of its own."""
    command("-m", *WORDS, "task.tokens=bpe", "task.vocabulary=270", "seed=0,1", "jobs=1")
    names = ",".join(map(str, Path("runs").glob("language-*")))
    assert "looped, 2 loops, seed 1" in command("action=compare", f"runs=[{names}]")


def test_runs_are_compared_and_listed_by_bits_per_byte(command: Command, tmp_path: Path) -> None:
    command("-m", *WORDS, "seed=0,1", "jobs=1")
    paths = sorted(Path("runs").glob("language-*"))
    evaluations = [json.loads((path / "evaluation.json").read_text()) for path in paths]
    bits = [each["language"]["texts"]["held_out"]["bits_per_byte"] for each in evaluations]
    means = [band["mean"][1] for band in bits]  # after b = 2 loops
    listed = command("action=list", "tables.format=csv")
    rows = list(csv.DictReader(listed.splitlines()))
    assert sorted(float(row["error"]) for row in rows) == sorted(means)
    names = ",".join(map(str, paths))
    out = command("action=compare", f"runs=[{names}]", "tables.format=markdown")
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


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("task.text=*.parquet", "task.text is no file and no folder: *.parquet"),
        ("task.tokens=words", "task.tokens must be bytes, bpe or a tokenizer.json"),
        ("task.tokens=bpe task.vocabulary=100", "task.vocabulary must be at least 257"),
        ("training.targets=posterior_mean", "training.targets cannot be posterior_mean"),
    ],
)
def test_a_wrong_start_is_one_line(refused: Refused, words: str, message: str) -> None:
    given = ["training.steps=0", *words.split()]
    keys = {word.partition("=")[0] for word in given}
    kept = [word for word in WORDS if word.partition("=")[0] not in keys]
    err = refused(*kept, *given)
    assert message in err


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("q.jsonl", b'{"query": "the"}\n', "is 'text', which eval/q.jsonl, line 1 has not"),
        ("b.txt", b"\xe9t\xe9", "task.eval is not UTF-8: eval/b.txt, byte 0 is 0xe9"),
    ],
)
def test_what_evaluation_will_not_find_is_said_before_training(
    refused: Refused, name: str, content: bytes, message: str
) -> None:
    Path("eval").mkdir()
    Path("eval", name).write_bytes(content)
    err = refused(*WORDS, "task.eval=eval")
    assert message in err
    assert not list(Path().glob("runs/language-*"))


def test_a_tokeniser_is_kept_with_the_run(command: Command) -> None:
    pytest.importorskip("tokenizers", reason="tokenizers is not installed")
    words = [*WORDS, "task.tokens=bpe", "task.vocabulary=270"]
    command(*words)
    path = only_run()
    assert (path / "tokenizer.json").exists()
    loaded = load_run(path)
    assert loaded.model.spec.vocabulary == 270
    shipped = export(loaded, Path("shelf") / "text", card)
    assert load_run(shipped).model.spec.vocabulary == 270
    said = command("action=generate", f"run={shipped}", "prompt=the", "tokens=5")
    assert said.startswith("the")
    result = json.loads((path / "evaluation.json").read_text())
    bits = result["language"]["texts"]["held_out"]
    assert bits["bytes"] > 1.2 * bits["tokens"]


def test_an_edited_text_is_noticed(command: Command, refused: Refused) -> None:
    command(*WORDS)
    text = Path("text.txt").read_text()
    Path("text.txt").write_text(text.replace("sat", "sit"))
    out = command(*WORDS)
    assert "trained on other data: text, held_out changed (again=true trains again)" in out
    # An unfinished one does not go on with another text.
    for path in (only_run() / "checkpoints").glob("*60.*"):
        path.unlink()
    err = refused(*WORDS, code=1)
    assert "its data changed after it began (text, held_out), so that it cannot go on" in err
    command(*WORDS, "again=true")
    assert status_of(only_run())["state"] == "finished"


def test_a_run_from_before_a_setting_is_found_again(command: Command) -> None:
    """Its config.yaml does not have the setting; it has the same name, and is not trained again."""
    command(*WORDS)
    config = only_run() / "config.yaml"
    assert "    packing: running\n" in config.read_text()
    config.write_text(config.read_text().replace("    packing: running\n", ""))
    assert "step 60/60" not in command(*WORDS)
    assert "rows of 17 to train on" in command(*WORDS, "task.packing=best_fit")
    assert len(list(Path("runs").glob("language-*"))) == 2


def test_training_again_takes_the_tokeniser_of_today(command: Command) -> None:
    pytest.importorskip("tokenizers", reason="tokenizers is not installed")
    document = Path("text.txt").read_text()
    words = [*WORDS, "task.tokens=tokenizer.json"]
    for vocabulary, more in ((270, []), (265, ["again=true"])):
        tokenizer = make_tokenizer("bpe", vocabulary, lambda: [document])
        Path("tokenizer.json").write_text(tokenizer.content())
        said = command(*words, *more)
        assert load_run(only_run()).model.spec.vocabulary == vocabulary
    assert "trained again; the old run is" in said


def test_a_snapshot_of_a_text_is_measured_and_continued(command: Command) -> None:
    """It has the vocabulary and the tokeniser of its run, after step 0 too."""
    pytest.importorskip("tokenizers", reason="tokenizers is not installed")
    words = [*WORDS, "task.tokens=bpe", "task.vocabulary=270", "training.snapshots=[0,20]"]
    run_path = train(commands(words)[0].config).path
    for step, path in snapshots_of(run_path).items():
        assert load_run(path).model.spec.vocabulary == 270
        assert (path / "tokenizer.json").read_text() == (run_path / "tokenizer.json").read_text()
        said = command("action=generate", f"run={path}", "prompt=the", "tokens=3")
        assert said.startswith("the")
        out = command("action=evaluate", f"run={path}", "evaluation.resamples=10")
        assert "bits per byte" in out
        assert f"training unfinished: {step} of 60 steps" in out


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "has no data.json"),
        ('{"kind": "data"}', "data.json was altered"),
        ("not JSON", "data.json cannot be read"),
    ],
)
def test_a_run_without_its_record_of_the_data(
    command: Command, refused: Refused, content: str | None, problem: str
) -> None:
    """An unfinished one does not go on, since its text and tokens are unknown; again=true trains it
    anew. A finished one says what is missing."""
    interrupted(commands(WORDS)[0].config, 19)
    record = only_run() / "data.json"

    def damage() -> None:
        record.unlink() if content is None else record.write_text(content)

    damage()
    err = refused(*WORDS, code=1)
    assert problem in err
    assert "so that it cannot go on; again=true trains again" in err
    command(*WORDS, "again=true")
    assert status_of(only_run())["state"] == "finished"
    damage()
    err = refused("action=generate", f"run={only_run()}", "prompt=the", code=1)
    assert problem in err
    assert "it says how many tokens the model's vocabulary has" in err


def test_a_text_that_has_moved_is_given_its_new_place(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which is found again; and from another folder, where another text has its name, its own."""
    command(*WORDS)
    path = only_run().absolute()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "text.txt").write_text("another text\n" * 80)
    monkeypatch.chdir(elsewhere)
    command("action=evaluate", f"run={path}", "evaluation.seed=1")
    Path("../text.txt").rename(tmp_path / "moved.txt")
    moved = ["action=evaluate", f"run={path}", "evaluation.seed=2"]
    assert "other data" not in command(*moved, "task.text=../moved.txt")
    assert "other data" not in command(*moved[:2], "evaluation.seed=3")
    assert "trained on other data: text, held_out changed" in command(
        *moved[:2], "task.text=text.txt"
    )
