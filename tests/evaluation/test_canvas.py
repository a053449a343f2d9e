"""Pictures in the formats, the widths and with the title that were asked for; drawn once."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from looplab.conf.mistakes import ConfigError
from looplab.conf.schema import Config, EvaluationConfig, FigureSettings
from looplab.evaluation import compare, evaluate
from looplab.evaluation.figures import Pictures, band, drawn_once, name_curves
from looplab.evaluation.style import style_of
from looplab.training import Run
from looplab.training.run_folder.run import run_folder
from tests.conftest import batches_of, times_of

SETTINGS = EvaluationConfig(prompts=24, resamples=10, batch_size=12, loops=4)
CURVE = {"mean": [0.3, 0.5], "low": [0.2, 0.4], "high": [0.4, 0.6]}


def drawn(folder: Path, settings: FigureSettings, labels: tuple[str, ...] = ("a",)) -> Figure:
    """A saved picture of one curve under these labels."""
    with Pictures(folder, settings) as pictures:
        figure = pictures.figure()
        axes = figure.subplots()
        for label in labels:
            band(axes, [1, 2], CURVE, label, style_of(label))
        pictures.title(figure, "the title", ["training unfinished"])
        name_curves(figure)
        pictures.save(figure, "picture", "k", [1, 2], {"a": CURVE})
    return figure


def test_every_format_is_a_file_of_its_kind_and_another_removes_it(tmp_path: Path) -> None:
    drawn(tmp_path, FigureSettings(format=("png", "pdf", "svg")))
    starts = {".png": b"\x89PNG", ".pdf": b"%PDF", ".svg": b"<?xml"}
    for kind, start in starts.items():
        assert (tmp_path / f"picture{kind}").read_bytes().startswith(start)
    before = {kind: (tmp_path / f"picture{kind}").read_bytes() for kind in starts}
    drawn(tmp_path, FigureSettings(format=("png", "pdf", "svg")))
    assert before == {kind: (tmp_path / f"picture{kind}").read_bytes() for kind in starts}
    drawn(tmp_path, FigureSettings(format=("svg",)))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["picture.csv", "picture.svg"]


@pytest.mark.parametrize(("width", "inches"), [("column", 3.25), ("page", 6.75)])
def test_a_papers_width_is_met_and_no_legend_takes_a_third_of_it(
    width: str, inches: float, tmp_path: Path
) -> None:
    labels = ("looped, 12 loops", "3-nearest neighbours", "least squares (Bayes-optimal)")
    figure = drawn(tmp_path, FigureSettings(width=width), labels)  # type: ignore[arg-type]
    assert figure.get_figwidth() == inches
    (legend,) = figure.legends
    extent, axes = legend.get_window_extent(), figure.axes[0].get_window_extent()
    beside = extent.x0 >= axes.x1
    assert beside or extent.y1 <= axes.y0
    assert 0 <= extent.x0 < extent.x1 <= figure.bbox.width
    assert not beside or extent.width < figure.bbox.width / 3
    assert axes.width > 0.6 * figure.bbox.width


def test_without_a_title_remarks_stay(tmp_path: Path) -> None:
    assert drawn(tmp_path, FigureSettings()).get_suptitle() == "the title\ntraining unfinished"
    bare = drawn(tmp_path, FigureSettings(title=False))
    assert bare.get_suptitle() == "training unfinished"


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.2, 0.5, ["0.2", "0.3", "0.4", "0.5"]),
        (0.9, 1.2, ["0.9", "1"]),
        (0.05, 3, ["0.1", "1"]),
        (0.03, 40, ["0.1", "1", "10"]),
        (1e-9, 1, ["10⁻⁹", "10⁻⁷", "10⁻⁵", "10⁻³", "10⁻¹"]),
        (3e6, 5e6, ["3×10⁶", "4×10⁶", "5×10⁶"]),
    ],
)
def test_log_axes_have_two_labels_at_least_and_they_read_as_numbers(
    low: float, high: float, expected: list[str], tmp_path: Path
) -> None:
    with Pictures(tmp_path) as pictures:
        figure = pictures.figure()
        axes = figure.subplots()
        axes.set_yscale("log")
        axes.set_ylim(low, high)
        pictures.save(figure, "picture", "x", [], {})
        labels = [text.get_text() for text in axes.get_yticklabels()]
    assert set(expected) <= set(labels)
    assert 2 <= len(labels) <= 6


def test_bands_thin_out_and_lie_below_lines(tmp_path: Path) -> None:
    figure = Figure()
    few, many = figure.subplots(1, 2)
    for axes, count in ((few, 2), (many, 5)):
        for index in range(count):
            band(axes, [1, 2], CURVE, f"{index}", style_of("looped"))
    opacity = [np.asarray(axes.collections[0].get_facecolor())[0, 3] for axes in (few, many)]
    assert opacity[1] < opacity[0] / 2
    top = max(each.get_zorder() for each in many.collections)
    assert all(each.get_zorder() > top for each in many.lines)


def test_the_same_request_draws_nothing_twice(tmp_path: Path) -> None:
    record, calls = tmp_path / "drawn.json", list[str]()

    def draw(pictures: Pictures) -> None:
        calls.append("drawn")
        pictures.save(pictures.figure(), "picture", "x", [], {})

    plain, narrow = FigureSettings(), FigureSettings(width="column")
    for key, settings, drawings in (
        ("a", plain, 1),
        ("a", plain, 1),
        ("b", plain, 2),
        ("b", narrow, 3),
        ("b", narrow, 3),
    ):
        files = drawn_once(record, key, settings, draw)
        assert (len(calls), [file.name for file in files]) == (
            drawings,
            ["picture.png", "picture.csv"],
        )
    (tmp_path / "picture.png").unlink()
    drawn_once(record, "b", narrow, draw)
    assert len(calls) == 4


def test_another_format_is_drawn_and_nothing_computed(tiny_run: Run) -> None:
    evaluate(tiny_run, SETTINGS)
    before = times_of(tiny_run.path, "figures/*")
    with batches_of(tiny_run.model, most=0):
        evaluate(tiny_run, SETTINGS)
        assert times_of(tiny_run.path, "figures/*") == before
        evaluate(tiny_run, SETTINGS, figures=FigureSettings(format=("svg",)))
    names = {path.suffix for path in (tiny_run.path / "figures").iterdir()}
    assert names == {".svg", ".csv"}
    content = json.loads((tiny_run.path / "evaluation.json").read_text())
    assert content["figures"] == {"format": ["svg"], "width": None, "title": True}


def test_a_comparison_is_drawn_once(two_runs: tuple[Run, Run], tmp_path: Path) -> None:
    folder = Path(compare(two_runs, SETTINGS, tmp_path)["path"])
    before = times_of(folder, "**/*")
    compare(two_runs, SETTINGS, tmp_path)
    assert times_of(folder, "**/*") == before
    compare(two_runs, SETTINGS, tmp_path, figures=FigureSettings(format=("pdf",)))
    assert not list(folder.glob("figures/*.png"))


def test_a_training_has_a_picture_of_its_metrics(tiny_run: Run, undrawn: dict[str, Figure]) -> None:
    evaluate(tiny_run, SETTINGS)
    with open(tiny_run.path / "figures" / "training.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    records = [json.loads(line) for line in (tiny_run.path / "metrics.jsonl").open()]
    assert [int(row["step"]) for row in rows] == [10, 20, 30, 40]
    assert [float(row["loss_raw"]) for row in rows] == [record["loss"] for record in records]
    assert [float(row["stage_dims"]) for row in rows] == [record["dims"] for record in records]
    raw, _ = undrawn["training"].axes[0].lines
    assert list(np.asarray(raw.get_ydata())) == [record["loss"] for record in records]
    assert float(rows[0]["loss_smoothed"]) == records[0]["loss"]
    labels = [axes.get_ylabel() for axes in undrawn["training"].axes]
    assert labels[:3] == ["loss", "loops", "dims"]


def test_a_run_without_a_log_has_no_such_picture(tiny_run: Run, undrawn: dict[str, Figure]) -> None:
    (tiny_run.path / "metrics.jsonl").unlink()
    evaluate(tiny_run, SETTINGS)
    assert "training" not in undrawn


def test_pictures_and_tables_bear_on_no_runs_name() -> None:
    words = ("figures.format=[pdf,svg]", "figures.width=page", "tables.format=latex")
    plain, other = Config.of("task=linear"), Config.of("task=linear", *words)
    assert other.figures == FigureSettings(format=("pdf", "svg"), width="page")
    assert run_folder(plain) == run_folder(other)
    assert replace(other, figures=plain.figures, tables=plain.tables) == plain


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("figures.format=jpg", "figures.format cannot be 'jpg'; did you mean 'png'?"),
        ("figures.format=[]", "figures.format must hold at least one of png, pdf, svg"),
        ("figures.format=[png,png]", "figures.format names one twice: png, png"),
        ("figures.width=3", "figures.width cannot be 3; expected one of column, page"),
        ("figures.titel=false", "did you mean 'figures.title'"),
        ("tables.format=tex", "tables.format cannot be 'tex'; did you mean 'text'?"),
    ],
)
def test_mistakes_are_one_line(word: str, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        Config.of("task=linear", word)
    assert message in str(error.value)
    assert "\n" not in str(error.value)
