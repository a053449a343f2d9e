"""The page: what it holds, that it loads nothing; odd names and damaged files."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path

import pytest

from looplab.conf.mistakes import ConfigError
from looplab.experiments.report.command import ReportSettings
from looplab.experiments.report.write import write_report
from looplab.training.run_folder.files import write_record

from .measured import NASTY, Page, csv_rows, experiment, experiment_path

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
    assert heads == ["claims", "experiments", "comparisons", "laws", "runs", "environment"]
    assert "1 holds, 1 fails, 1 not settled, 1 not measured" in text
    claims = text.partition("Claims 1 holds")[2].partition("Experiments")[0]
    for name in ("holds", "fails", "not settled"):
        row = claims.partition(f"A claim that is {name} ")[2][:250]
        assert f"note on {name}" in row
        assert f"python run.py experiment=fig02 'x=[{name}]'" in row
        assert f"{name} 1.25 (1.1 to 1.38) below 1.5 0.98 2 5,000 of 500,000 small" in row
    assert "○ not measured – below 1.5 – 2" in claims
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
    assert "accuracy by table. At <i>credit</i>: looped: 0.7 (0.63 to 0.77)." in page.text


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
    head = words.partition("Last query's error at b (90 %)")[2].partition("sparse linear")[0]
    assert head.split() == ["training.batch_size"]
    same = words.partition("settings that are the same in all of them")[2]
    assert "training.steps 40" in same.partition("close all runs")[0]
    assert first.name in words


def test_unfinished_runs_are_shown_with_their_remarks(own: Path) -> None:
    run = run_folders(own)[0]
    write_record(run / "status.json", "status", {"state": "interrupted", "step": 20})
    _, page = write(own)
    assert "interrupted at step 20 of 40" in page.text
    assert "training unfinished: 20 of 40 steps" in page.text


def test_damaged_files_are_named_in_a_line_and_the_rest_is_shown(own: Path) -> None:
    first, second = run_folders(own)
    (first / "evaluation.json").write_text('{"kind": "evalu', encoding="utf-8")
    (own / "broken").mkdir()
    (own / "broken" / "config.yaml").write_text("task: [", encoding="utf-8")
    result = experiment(second)
    del result["panels"]
    write_record(experiment_path(own, "fig03-small"), "experiment", result)
    (own / "scaling_law-tiny-01234567" / "scaling_law.json").write_text("[]", encoding="utf-8")
    said, page = write(own)
    text = " ".join(page.text.split())
    for line in (
        f"{first / 'evaluation.json'} cannot be read",
        f"{own / 'broken'} is not shown",
        "fig03-small/result.json is not shown: it has another form than this version's",
        "scaling_law-tiny-01234567 is not shown: is no JSON object",
    ):
        assert line in text
        assert line in said
    assert "Error by number of examples" in text
    assert first.name in text


def test_nothing_is_drawn_twice_that_has_not_changed(own: Path) -> None:
    said, _ = write(own)
    assert "; 5 drawn, 0 unchanged" in said
    path = own.parent / "page" / "index.html"
    before = path.stat().st_mtime_ns
    said, _ = write(own)
    assert "; 0 drawn, 5 unchanged" in said
    assert path.stat().st_mtime_ns == before
    metrics = run_folders(own)[0] / "metrics.jsonl"
    metrics.write_text(metrics.read_text(encoding="utf-8") + "\n{}\n", encoding="utf-8")
    said, page = write(own)
    assert "; 1 drawn, 4 unchanged" in said
    assert "metrics.jsonl: line 6 cannot be read" in " ".join(page.text.split())
    assert len(list((own / "report_cache").glob("*.json"))) == 5  # the old part is gone


def test_an_altered_kept_part_is_drawn_anew(own: Path) -> None:
    write(own)
    for path in (own / "report_cache").glob("*.json"):
        path.write_text(path.read_text(encoding="utf-8").replace("0.", "1."), encoding="utf-8")
    said, page = write(own)
    assert "; 5 drawn, 0 unchanged" in said
    assert page.figure("Errors of")["csv"][1][1] == "0.9"


def test_many_runs_in_seconds_and_below_a_megabyte(own: Path) -> None:
    """With so many the page has no figures of runs, but a command for them."""
    first, second = run_folders(own)
    for number in range(38):
        shutil.copytree(first if number % 2 else second, own / f"copy-{number}")
    start = time.perf_counter()
    said, page = write(own)
    assert time.perf_counter() - start < 10
    assert "40 runs" in said
    assert (own.parent / "page" / "index.html").stat().st_size < 1e6
    assert sum(tag == "details" and a.get("class") == "run" for tag, a in page.tags) == 40
    assert f"runs={first} draws them" in page.text


def test_one_experiment_some_runs_or_all(own: Path) -> None:
    first, second = run_folders(own)
    said, page = write(own, experiment="fig02")
    assert said.startswith("1 experiment, 1 run, 4 claims")
    assert second.name not in page.text
    said, page = write(own, runs=(str(second),))
    assert said.startswith("1 run, 0 claims")
    assert first.name not in page.text
    said, page = write(own, runs=(f"{own}/sparse_linear-*",))
    assert said.startswith("2 runs")
    assert write(own, experiment="all")[0].startswith("1 experiment, 1 run, 4 claims")


def test_grids_are_shown_as_experiments_are(own: Path) -> None:
    (run, _) = run_folders(own)
    for name in ("grid-0123abcd", "grid-89ef4567", "grid-other"):
        (own / name).mkdir()
        content = {**experiment(run), "experiment": name, "title": f"the result of {name}"}
        content["panels"][1] |= {"title": f"a picture of {name}"}
        write_record(own / name / "result.json", "experiment", content)
    said, page = write(own)
    assert said.startswith("3 experiments, 1 comparison, 1 law, 2 runs")
    for name in ("grid-0123abcd", "grid-89ef4567"):
        figure = page.figure(f"a picture of {name}")
        assert figure["file"].startswith(name)
        assert [row[0] for row in figure["csv"]] == ["table", "wind 1", "<i>credit</i>"]
    assert "grid-other" not in page.text
    said, page = write(own, experiment="grid-89ef4567")
    assert said.startswith("1 experiment, 1 run")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"experiment": "fig20"}, "experiment cannot be 'fig20'; did you mean 'fig02'"),
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
    with pytest.raises(ConfigError, match="folder holds nothing to report: no run, experiment"):
        write(tmp_path / "runs")
    with pytest.raises(
        ConfigError, match=r"experiment has no result in .*experiment=fig03 makes one"
    ):
        write(tmp_path / "runs", experiment="fig03")
    assert not (tmp_path / "page").exists()


def test_a_result_that_was_altered_is_not_believed(own: Path) -> None:
    path = experiment_path(own)
    content = json.loads(path.read_text(encoding="utf-8"))
    content["verdicts"][1]["verdict"] = "holds"
    path.write_text(json.dumps(content), encoding="utf-8")
    _, page = write(own)
    assert "was altered: its checksum does not fit" in page.text
    assert "A claim that is" not in page.text
