"""The page: what it holds, that it loads nothing; odd names and damaged files."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

from looplab.conf.mistakes import ConfigError
from looplab.evaluation.drawing import svg
from looplab.evaluation.panel import Panel
from looplab.experiments.report.page import as_typed, short, write_report
from looplab.experiments.settings import ReportSettings
from looplab.training.run_folder.files import write_record

from .measured import LAW, NASTY, Page, csv_rows, experiment, experiment_path

LOADED = ("href", "src", "srcset", "action", "data", "poster", "formaction", "background")


def write(folder: Path, **settings: object) -> tuple[str, Page]:
    """The text that is printed, and the page; its folder is beside the runs'."""
    given = ReportSettings(folder=str(folder), output=str(folder.parent / "page"), **settings)  # type: ignore[arg-type]
    return write_report(given), Page(folder.parent / "page" / "index.html")


@pytest.fixture
def own(measured: Path, tmp_path: Path) -> Path:
    """A copy of the measured folder that a test may change."""
    kept = shutil.ignore_patterns("report_cache")
    return shutil.copytree(measured, tmp_path / "runs", ignore=kept)


def run_folders(folder: Path) -> list[Path]:
    return sorted(folder.glob("sparse_linear-*"))


def test_it_loads_nothing(index: Path) -> None:
    page = Page(index)
    targets = [
        value for _, attributes in page.tags for name, value in attributes.items() if name in LOADED
    ]
    assert len(targets) > 20
    assert not [target for target in targets if not target.startswith(("#", "data:"))]
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert {target[1:] for target in targets if target.startswith("#")} <= set(ids)
    text = index.read_text(encoding="utf-8")
    assert "@import" not in text
    assert "url(" not in text.partition("<style>")[2].partition("</style>")[0]
    (policy,) = (
        a["content"] for _, a in page.tags if a.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy.startswith("default-src 'none'")


def test_claims_stand_first_with_number_interval_verdict_and_command(index: Path) -> None:
    page, text = Page(index), " ".join(Page(index).text.split())
    assert "cannot be read" not in text
    heads = [attributes["id"] for tag, attributes in page.tags if tag == "section"]
    assert heads == ["claims", "results", "runs", "environment"]
    assert "1 holds, 1 fails, 1 not settled, 1 not measured" in text
    claims = text.partition("Claims 1 holds")[2].partition("Results")[0]
    for name in ("holds", "fails", "not settled"):
        row = claims.partition(f"A claim that is {name} ")[2][:250]
        assert f"note on {name}" in row
        assert f"python run.py experiment=fig02 'x=[{name}]'" in row
        assert f"{name} 1.25 (1.1 to 1.38) < 1.5 0.98 2 5,000 of 500,000 small" in row
    assert "○ not measured – < 1.5 – 2" in claims
    (link,) = (a["href"] for _, a in page.tags if a.get("download") == "claims.csv")
    head, *rows = csv_rows(link)
    assert [dict(zip(head, row, strict=True))["verdict"] for row in rows] == [
        "holds", "fails", "not settled", "not measured",
    ]  # fmt: skip


def test_names_that_hold_html_dollars_and_commas_are_text(index: Path) -> None:
    page = Page(index)
    assert [tag for tag, _ in page.tags].count("script") == 1
    assert "b" not in {tag for tag, _ in page.tags}
    assert page.text.count(NASTY) >= 4  # title, figure, training, what is missing
    figure = page.figure("Errors of")
    assert figure["title"] == f"Errors of {NASTY}"
    assert figure["names"] == ["looped", NASTY]


def test_a_figure_s_csv_has_its_numbers(index: Path) -> None:
    head, *rows = Page(index).figure("Errors of")["csv"]
    by_name = dict(zip(head, zip(*rows, strict=True), strict=True))
    assert [float(value) for value in by_name["looped_2_mean"]] == [0.9, 0.5, 0.2]
    assert [float(value) for value in by_name["ls_high"]] == [1.1, 0.44, 1.1e-9]


def test_an_axis_of_names_has_them_in_csv_and_sentence(index: Path) -> None:
    page = Page(index)
    figure = page.figure("Accuracy by table")
    assert [row[0] for row in figure["csv"]] == ["table", "wind 1", "<i>credit</i>"]
    assert "accuracy by table. looped: 0.7 (0.63 to 0.77) at <i>credit</i>." in page.text


def test_every_figure_has_numbers_a_sentence_and_a_command(index: Path) -> None:
    page = Page(index)
    assert len(page.figures) > 12
    for figure in page.figures:
        assert len(figure["csv"]) > 1, figure["title"]
        assert figure["file"].endswith(".csv")
    assert len({figure["file"] for figure in page.figures}) == len(page.figures)
    copied = [
        a["aria-label"] for tag, a in page.tags if tag == "button" and a.get("class") == "copy"
    ]
    assert len(copied) >= len(page.figures)
    assert all(label.startswith("Copy the command ") for label in copied)
    commands = " ".join(copied)
    for word in ("action=compare", "evaluation.loops=6", "experiments.scaling_law"):
        assert word in commands


def test_what_differs_between_runs_and_what_does_not(own: Path) -> None:
    first, second = run_folders(own)
    text = (second / "config.yaml").read_text(encoding="utf-8")
    (second / "config.yaml").write_text(
        text.replace("batch_size: 8", "batch_size: 9"), encoding="utf-8"
    )
    shutil.rmtree(second / "checkpoints")
    _, page = write(own)
    words = " ".join(page.text.split())
    head = words.partition("Error at b")[2].partition("sparse linear")[0]
    assert head.split() == ["training.batch_size"]
    same = words.partition("settings that are the same in all of them")[2]
    assert "training.steps 40" in same.partition("close all runs")[0]
    assert first.name in words


def test_unfinished_runs_are_shown_with_their_remarks(own: Path) -> None:
    run = run_folders(own)[0]
    write_record(run / "status.json", "status", {"state": "interrupted", "step": 20})
    _, page = write(own)
    assert "interrupted at step 20 of 40" in page.text


def test_damaged_files_are_named_in_a_line_and_the_rest_is_shown(own: Path) -> None:
    first, _ = run_folders(own)
    (first / "evaluation.json").write_text('{"kind": "evalu', encoding="utf-8")
    (own / "broken").mkdir()
    (own / "broken" / "config.yaml").write_text("task: [", encoding="utf-8")
    experiment_path(own, "fig03-small").write_text('{"kind": "exper', encoding="utf-8")
    (own / "scaling_law-tiny-01234567" / "scaling_law.json").write_text("[]", encoding="utf-8")
    said, page = write(own)
    text = " ".join(page.text.split())
    for line in (
        f"{own / 'broken'} is not shown",
        "fig03-small/result.json is not shown: cannot be read",
        "scaling_law.json is not shown: is no JSON object",
    ):
        assert line in text
        assert line in said
    assert f"{first / 'evaluation.json'} cannot be read" in text
    assert "Error by number of examples" in text
    assert first.name in text


def test_nothing_is_drawn_twice_that_has_not_changed(
    own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(own)
    drawn = list[str]()

    def note(panel: Panel, prefix: str) -> str:
        drawn.append(panel.name)
        return svg(panel, prefix)

    monkeypatch.setattr("looplab.experiments.report.page.svg", note)
    write(own)
    assert drawn == []
    metrics = run_folders(own)[0] / "metrics.jsonl"
    record = '{"step": 50, "loss": 9, "loops": 2, "dims": 3, "points": 7}'
    metrics.write_text(f"{metrics.read_text(encoding='utf-8')}{record}\n{{}}\n", encoding="utf-8")
    _, page = write(own)
    assert drawn == ["training"]
    assert "metrics.jsonl: line 6 cannot be read" in " ".join(page.text.split())
    kept = list((own / "report_cache").glob("*.json"))
    assert len(kept) == len(page.figures)  # the old one is gone


def test_many_runs_in_seconds_and_below_a_megabyte(own: Path) -> None:
    """With so many the page has no figures of runs, but a command for them."""
    first, second = run_folders(own)
    for number in range(38):
        shutil.copytree(first if number % 2 else second, own / f"copy-{number}")
    start = time.perf_counter()
    said, page = write(own)
    assert time.perf_counter() - start < 10
    assert "runs: 40" in said
    assert (own.parent / "page" / "index.html").stat().st_size < 1e6
    assert sum(tag == "details" and a.get("class") == "run" for tag, a in page.tags) == 40
    assert f"runs={first} draws them" in page.text


def test_one_experiment_some_runs_or_all(own: Path) -> None:
    first, second = run_folders(own)
    said, page = write(own, experiment="fig02")
    assert said.startswith("results: 1, runs: 1, claims: 4")
    assert second.name not in page.text
    said, page = write(own, runs=(str(second),))
    assert said.startswith("results: 0, runs: 1, claims: 0")
    assert first.name not in page.text
    said, page = write(own, runs=(f"{own}/sparse_linear-*",))
    assert said.startswith("results: 0, runs: 2")
    assert write(own, experiment="all")[0].startswith("results: 1, runs: 1, claims: 4")


def test_grids_are_shown_as_experiments_are(own: Path) -> None:
    (run, _) = run_folders(own)
    for name in ("grid-0123abcd", "grid-89ef4567"):
        (own / name).mkdir()
        content = {**experiment(run), "experiment": name, "title": f"the result of {name}"}
        content["panels"][1] |= {"title": f"a picture of {name}"}
        write_record(own / name / "result.json", "experiment", content)
    said, page = write(own)
    assert said.startswith("results: 5, runs: 2")
    for name in ("grid-0123abcd", "grid-89ef4567"):
        figure = page.figure(f"a picture of {name}")
        assert figure["file"].startswith(name)
        assert [row[0] for row in figure["csv"]] == ["table", "wind 1", "<i>credit</i>"]
    said, page = write(own, experiment="grid-89ef4567")
    assert said.startswith("results: 1, runs: 1")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"experiment": "fig20"}, "did you mean 'fig02'"),
        ({"runs": ("runs/none",)}, "runs cannot hold 'runs/none': it is no run folder"),
        ({"runs": ("runs/x*",)}, "runs cannot hold 'runs/x*': it fits no run folder"),
        ({"runs": ("runs/x",), "experiment": "fig02"}, "runs cannot be given beside experiment"),
    ],
)
def test_mistakes_name_the_key(measured: Path, settings: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message.replace("*", r"\*")):
        write(measured, **settings)


def test_an_empty_folder_is_a_mistake(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    with pytest.raises(ConfigError, match="folder holds nothing to report: no run and no result"):
        write(tmp_path / "runs")
    with pytest.raises(ConfigError, match="experiment has no result 'fig03'"):
        write(tmp_path / "runs", experiment="fig03")
    assert not (tmp_path / "page").exists()


@pytest.mark.parametrize(
    ("recorded", "typed"),
    [
        ("/a/b/run.py task=linear seed=1", "python run.py task=linear seed=1"),
        ("run.py -m loops.b=[4,8]", "python run.py -m 'loops.b=[4,8]'"),
        (
            "/a/experiments/iso_depth/__main__.py r=[1,2]",
            "python -m experiments.iso_depth 'r=[1,2]'",
        ),
        ("/a/evaluation/ship.py run=x", "python -m evaluation.ship run=x"),
        ("/a/bin/looplab task=linear", "looplab task=linear"),
        ("/a/looplab/__main__.py task=linear", "python -m looplab task=linear"),
        ("run.py task.name=$(rm) ;", "python run.py 'task.name=$(rm)' ';'"),
        (None, ""),
    ],
)
def test_recorded_commands_can_be_pasted(recorded: str | None, typed: str) -> None:
    assert as_typed(recorded) == typed


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.012345, "0.0123"), (1.5e-13, "1.50e-13"), (0.0, "0"), (None, "–"), (float("nan"), "–")],
)
def test_numbers_are_short(value: float | None, text: str) -> None:
    assert short(value) == text


def test_the_law_has_a_slider_over_phi(index: Path) -> None:
    figure = Page(index).figure("The law with phi")
    phis = sorted({float(name.split("_")[1]) for name in figure["csv"][0] if name.startswith("r-")})
    assert (phis[0], phis[-1]) == (-0.2, 1.2)
    assert any(abs(phi - LAW.phi) < 0.1 for phi in phis)
    assert figure["names"][-3:] == ["r = 1", "r = 2", "r = 4"]
