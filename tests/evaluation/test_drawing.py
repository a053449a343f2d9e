"""Pictures: their formats, sizes, titles and axes; what a CSV says is what the picture shows."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from looplab.conf.mistakes import ConfigError
from looplab.conf.schema import Config, EvaluationConfig, FigureSettings
from looplab.evaluation import compare, evaluate
from looplab.evaluation.drawing import draw, save_panels, svg
from looplab.evaluation.figures import training_panels
from looplab.evaluation.panel import Curve, Panel
from looplab.training import Run
from looplab.training.run_folder.run import run_folder
from tests.conftest import batches_of, times_of

SETTINGS = EvaluationConfig(
    prompts=40,
    resamples=30,
    batch_size=16,
    loops=6,
    shifts=("half_subspace", "orthogonal_query", "scaled_w_2"),
)


def curve(label: str, **more: Any) -> Curve:
    given = {"kind": label, "mean": [0.3, 0.5], "low": [0.2, 0.4], "high": [0.4, 0.6]}
    return Curve(label=label, name=label, **{**given, **more})


def panel(*labels: str, **more: Any) -> Panel:
    return Panel("picture", "the title", "k", "error", [1, 2], [*map(curve, labels)], **more)


def test_every_format_is_a_file_of_its_kind_and_another_removes_it(tmp_path: Path) -> None:
    starts = {".png": b"\x89PNG", ".pdf": b"%PDF", ".svg": b"<?xml"}
    contents = []
    for _ in range(2):
        save_panels(tmp_path, [panel("a")], FigureSettings(format=("png", "pdf", "svg")))
        contents.append({kind: (tmp_path / f"picture{kind}").read_bytes() for kind in starts})
    assert contents[0] == contents[1]
    assert all(contents[0][kind].startswith(start) for kind, start in starts.items())
    save_panels(tmp_path, [panel("a")], FigureSettings(format=("svg",)))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["picture.csv", "picture.svg"]


@pytest.mark.parametrize(("width", "inches"), [("column", 3.25), ("page", 6.75)])
def test_a_papers_width_is_met_and_no_legend_takes_a_third_of_it(
    width: str, inches: float, tmp_path: Path, saved: dict[str, Figure]
) -> None:
    labels = ("looped, 12 loops", "3-nearest neighbours", "least squares (Bayes-optimal)")
    save_panels(tmp_path, [panel(*labels)], FigureSettings(width=width))  # type: ignore[arg-type]
    figure = saved["picture"]
    assert figure.get_figwidth() == inches
    (legend,) = figure.legends
    extent, axes = legend.get_window_extent(), figure.axes[0].get_window_extent()
    beside = extent.x0 >= axes.x1
    assert beside or extent.y1 <= axes.y0
    assert 0 <= extent.x0 < extent.x1 <= figure.bbox.width
    assert not beside or extent.width < figure.bbox.width / 3
    assert axes.width > 0.6 * figure.bbox.width


def test_panels_of_one_picture_stand_in_one_file(tmp_path: Path, saved: dict[str, Figure]) -> None:
    panels = [replace(panel("a"), name=name, picture="both") for name in ("one", "two")]
    save_panels(tmp_path, panels)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["both.csv", "both.png"]
    assert len(saved["both"].axes) == 2
    head = (tmp_path / "both.csv").read_text(encoding="utf-8").splitlines()[0]
    assert head.startswith("one: k,one: a_mean")


def test_without_a_title_remarks_stay() -> None:
    for title, expected in ((True, "a run: the title\nunfinished"), (False, "unfinished")):
        figure = draw([panel("a")], FigureSettings(title=title), "a run", ["unfinished"])
        assert figure.get_suptitle() == expected


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.2, 0.5, ["0.2", "0.3", "0.4", "0.5"]),
        (0.9, 1.2, ["0.9", "1"]),
        (0.05, 3, ["0.1", "1"]),
        (0.03, 40, ["0.1", "1", "10"]),
        (1e-9, 1, [rf"$\mathdefault{{10^{{{power}}}}}$" for power in (-8, -6, -4, -2, 0)]),
    ],
)
def test_log_axes_have_two_labels_at_least_and_they_read_as_numbers(
    low: float, high: float, expected: list[str]
) -> None:
    ends = [curve("a", mean=[low, high], low=[], high=[])]
    figure = draw([replace(panel(), curves=ends, log="y", limits=(low, high))], FigureSettings())
    ticks = figure.axes[0].get_yticklabels()
    labels = [each.get_text() for each in ticks if low <= each.get_position()[1] <= high]
    assert set(expected) <= set(labels)
    assert 2 <= len(labels) <= 6


def test_exact_solvers_do_not_squeeze_the_models() -> None:
    """Rounding errors of a solver are below the axis, those of a model are on it."""
    bottoms = []
    for solver in (True, False):
        exact = curve("exact", mean=[0.5, 1e-14], low=[], high=[], solver=solver)
        figure = draw(
            [replace(panel(), curves=[curve("looped"), exact], log="y")], FigureSettings()
        )
        bottoms.append(figure.axes[0].get_ylim()[0])
    assert bottoms[0] > 1e-3
    assert bottoms[1] < 1e-14


def test_bands_thin_out_and_lie_below_lines() -> None:
    few, many = (
        draw([panel(*map(str, range(count)))], FigureSettings()).axes[0] for count in (2, 5)
    )
    opacity = [np.asarray(axes.collections[0].get_facecolor())[0, 3] for axes in (few, many)]
    assert opacity[1] < opacity[0] / 2
    top = max(each.get_zorder() for each in many.collections)
    assert all(each.get_zorder() > top for each in many.lines)


def test_a_slider_s_curves_are_in_the_page_and_one_of_them_in_a_picture() -> None:
    slid = [curve("a", at=float(at)) for at in (1, 2, 3)]
    sliding = replace(panel(), curves=slid, slider="loop", start=2.0)
    assert len(draw([sliding], FigureSettings()).axes[0].lines) == 1
    text = svg(sliding, "it")
    assert (
        sum(text.count(f'id="it-{part}-{at}"') for part in ("curve", "band") for at in range(3))
        == 6
    )
    assert text.count('id="it-hit-') == 2
    small = replace(panel(), curves=[curve("a", mean=[0.001, 0.004], low=[])], log="y")
    assert ">0.001</text>" in svg(small, "it")  # coordinates are rounded, labels are not


def test_a_panel_stands_on_anyones_axes() -> None:
    axes = Figure().subplots()
    panel("a", log="y").draw(axes)
    assert (axes.get_xlabel(), axes.get_ylabel(), axes.get_yscale()) == ("k", "error", "log")
    assert [line.get_label() for line in axes.lines] == ["a"]


def test_bars_and_matrices() -> None:
    bars = replace(panel("a", "b"), bars=True, x_names=["one", "two"])
    figure = draw([bars], FigureSettings())
    heights = [round(float(each.get_extents().height), 3) for each in figure.axes[0].patches]
    assert heights[0] == heights[2] < heights[1] == heights[3]
    cosines = replace(panel(), x=[1, 2], matrix=[[1.0, None], [-0.5, 1.0]])
    (image,) = draw([cosines], FigureSettings()).axes[0].images
    np.testing.assert_array_equal(np.asarray(image.get_array()), [[1, np.nan], [-0.5, 1]])


def test_names_of_two_numbers_of_loops_do_not_cover_each_other() -> None:
    marked = [curve(str(b), b=b, mean=[0.1, 0.2], x=[1, 60], low=[]) for b in (6, 8)]
    figure = draw([replace(panel(), x_label="loop", curves=marked)], FigureSettings())
    marks = [line for line in figure.axes[0].lines if line.get_gid() is None]
    assert [np.asarray(line.get_xdata()).tolist() for line in marks] == [[6, 6], [8, 8]]
    first, second = (text.get_window_extent() for text in figure.axes[0].texts)
    assert not first.overlaps(second)


def test_no_remark_on_a_run_is_wider_than_its_picture() -> None:
    files = ", ".join(["tasks/posterior.py"] * 3)
    remark = f"trained by other code: {files} differ now (again=true)"
    figure = draw([panel("a")], FigureSettings(), "linear", [remark])
    (title,) = (text for text in figure.texts if text.get_text().startswith("linear"))
    extent = title.get_window_extent()
    assert 0 < extent.x0 < extent.x1 < figure.bbox.width


def columns(path: Path) -> dict[str, np.ndarray[Any, Any]]:
    with open(path, encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return {
        name: np.array([float(row[name]) if row[name] else np.nan for row in rows])
        for name in rows[0]
    }


def plotted(figure: Figure) -> Iterator[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]:
    """x and y of each curve, without marks and levels."""
    for axes in figure.axes:
        for line in axes.lines:
            x, y = np.asarray(line.get_xdata()), np.asarray(line.get_ydata())
            if str(line.get_gid()).startswith("curve-") and line.get_linestyle() != "None":
                yield x, y


def check(figure: Figure, path: Path) -> int:
    """Every plotted curve is a column of the CSV, and its band's edges are two more."""
    known = columns(path)
    found = list(plotted(figure))
    for x, y in found:
        name = next(
            (
                name
                for name, values in known.items()
                if name.endswith("_mean") and np.array_equal(values[: len(y)], y, equal_nan=True)
            ),
            None,
        )
        assert name is not None, path.name
        place = name.partition(": ")[0] + ": " if ": " in name else ""
        axis = next(each for each in known if each.startswith(place))
        own = name.replace("_mean", "_x")  # of what halts: the loops it uses
        np.testing.assert_array_equal(known[own if own in known else axis][: len(x)], x)
        assert {name.replace("_mean", f"_{part}") for part in ("low", "high")} <= set(known)
    return len(found)


def test_an_evaluations_csvs_reproduce_its_pictures(
    tiny_run: Run, saved: dict[str, Figure]
) -> None:
    result = evaluate(tiny_run, SETTINGS)
    folder = tiny_run.path / "figures"
    (band,) = saved["error_by_loop"].axes[0].collections
    heights = set(np.asarray(band.get_paths()[0].vertices)[:, 1].tolist())
    by_loop = result["by_loop"]["model"]
    assert set(by_loop["low"]) | set(by_loop["high"]) == heights
    counts = {
        name: check(figure, folder / f"{name}.csv")
        for name, figure in saved.items()
        if name != "training"  # whose stages have no bands
    }
    assert counts == {
        "error_by_examples": 2 + 5,
        "error_by_loop": 1,
        "change_by_loop": 2,
        "halting": 3,
        "above_optimal": 2,
        "shifts": 3 * 3,
        "shifts_by_loop": 4,
    }
    for name in counts:
        assert (folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def test_a_comparisons_csvs_reproduce_its_pictures(
    two_runs: tuple[Run, Run], tmp_path: Path, saved: dict[str, Figure]
) -> None:
    result = compare(two_runs, replace(SETTINGS, loops=None, shifts=()), tmp_path)
    folder = Path(result["path"]) / "figures"
    counts = {name: check(figure, folder / f"{name}.csv") for name, figure in saved.items()}
    assert counts == {"error_by_examples": 2 + 5, "error_by_loop": 2, "difference_by_examples": 1}


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
    rows = columns(tiny_run.path / "figures" / "training.csv")
    records = [json.loads(line) for line in (tiny_run.path / "metrics.jsonl").open()]
    losses = [record["loss"] for record in records]
    assert rows["step"].tolist() == [10, 20, 30, 40]
    assert rows["loss_low"].tolist() == rows["loss_high"].tolist() == losses
    assert rows["loss_mean"][0] == losses[0]
    assert [axes.get_ylabel() for axes in undrawn["training"].axes] == ["loss"]


def test_the_training_curve_is_a_running_mean_within_what_was_logged() -> None:
    steps = np.arange(1, 1001)
    noise = np.random.default_rng(0).normal(0, 0.1, len(steps))
    losses = np.exp(-steps / 300) + 1 + noise
    records = [
        {
            "step": int(step),
            "loss": float(loss),
            "loops": 4 + int(step > 500),
            "dims": 3,
            "points": 7,
        }
        for step, loss in zip(steps, losses, strict=True)
    ]
    loss, growing = training_panels(records, "looped")
    (curve,) = loss.curves
    assert len(loss.x) <= 120
    assert loss.picture == growing.picture == "training"
    assert loss.x[-1] == 1000
    mean = np.array(curve.mean, dtype=float)
    truth = np.exp(-np.array(loss.x) / 300) + 1
    assert np.abs(mean - truth)[20:].max() < 0.15
    assert np.diff(mean).std() < losses.std() / 10
    low, high = (np.array(getattr(curve, part), dtype=float) for part in ("low", "high"))
    assert low.min() == losses.min()
    assert high.max() == losses.max()
    assert [curve.name for curve in growing.curves] == ["loops"]
    assert (growing.curves[0].mean[0], growing.curves[0].mean[-1]) == (4, 5)


def test_a_log_without_losses_has_no_curve() -> None:
    assert training_panels([{"step": 1}, {"step": 2, "loss": None}], "looped") == []


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
