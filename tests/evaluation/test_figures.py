"""What a picture's CSV says is what the picture shows."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.text import Text

from looplab.conf.schema import EvaluationConfig
from looplab.evaluation import compare, evaluate, figures
from looplab.evaluation.style import style_of
from looplab.training import Run

SETTINGS = EvaluationConfig(
    prompts=40,
    resamples=30,
    batch_size=16,
    loops=6,
    shifts=("half_subspace", "orthogonal_query", "scaled_w_2"),
)


def columns(path: Path) -> dict[str, np.ndarray[Any, Any]]:
    with open(path, encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return {
        name: np.array([float(row[name]) if row[name] else np.nan for row in rows])
        for name in rows[0]
    }


def plotted(figure: Figure) -> Iterator[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]:
    """x and y of each curve that stands in a legend or a panel, without marks and levels."""
    for axes in figure.axes:
        for line in axes.lines:
            x, y = np.asarray(line.get_xdata()), np.asarray(line.get_ydata())
            if len(x) > 2 and line.get_linestyle() != "None":
                yield x, y


def check(figure: Figure, path: Path) -> int:
    """Every plotted curve is a column of the CSV, and its band's edges are two more."""
    known = columns(path)
    curves = list(plotted(figure))
    for x, y in curves:
        name = next(
            (
                name
                for name, values in known.items()
                if name.endswith("_mean") and np.array_equal(values[: len(y)], y, equal_nan=True)
            ),
            None,
        )
        assert name is not None, path.name
        # What halts is drawn over the loops it uses, all else over the first column.
        axis = name.replace("error", "loops") if path.stem == "halting" else next(iter(known))
        np.testing.assert_array_equal(known[axis][: len(x)], x)
        assert {name.replace("_mean", f"_{part}") for part in ("low", "high")} <= set(known)
    return len(curves)


def test_an_evaluations_csvs_reproduce_its_pictures(
    tiny_run: Run, saved: dict[str, Figure]
) -> None:
    evaluate(tiny_run, SETTINGS)
    folder = tiny_run.path / "figures"
    del saved["training"]  # it has no bands
    counts = {name: check(figure, folder / f"{name}.csv") for name, figure in saved.items()}
    assert counts == {
        "error_by_examples": 2 + 5,
        "error_by_loop": 1,
        "change_by_loop": 2,
        "halting": 3,
        "above_optimal": 2,
        "shifts": 3 * 3,
    }
    for name in counts:
        assert (folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def test_bands_are_the_intervals(tiny_run: Run, saved: dict[str, Figure]) -> None:
    result = evaluate(tiny_run, SETTINGS)
    (axes,) = saved["error_by_loop"].axes
    (band,) = axes.collections
    (path,) = band.get_paths()
    heights = set(np.asarray(path.vertices)[:, 1].tolist())
    curve = result["by_loop"]["model"]
    assert set(curve["low"]) | set(curve["high"]) == heights


def test_b_is_a_dashed_line(tiny_run: Run, saved: dict[str, Figure]) -> None:
    evaluate(tiny_run, SETTINGS)
    (axes,) = saved["error_by_loop"].axes
    dashed = [line for line in axes.lines if line.get_linestyle() == "--"]
    assert [list(np.asarray(line.get_xdata())) for line in dashed] == [[4, 4]]
    assert [text.get_text() for text in axes.texts] == ["b = 4"]


def test_a_comparisons_csvs_reproduce_its_pictures(
    two_runs: tuple[Run, Run], tmp_path: Path, saved: dict[str, Figure]
) -> None:
    result = compare(two_runs, replace(SETTINGS, loops=None, shifts=()), tmp_path)
    folder = Path(result["path"]) / "figures"
    counts = {name: check(figure, folder / f"{name}.csv") for name, figure in saved.items()}
    assert counts == {"error_by_examples": 2 + 5, "error_by_loop": 2, "difference_by_examples": 1}


NAME = "$x^$ \\frac{$"  # that matplotlib's mathtext cannot read


def test_a_dollar_in_a_name_is_a_dollar(tmp_path: Path) -> None:
    with figures.styled():
        figure = Figure()
        left, right = figure.subplots(1, 2)
        curve = {"mean": [1.0, 30.0], "low": [0.01, 20.0], "high": [2.0, 40.0]}
        figures.band(left, [1, 2], curve, NAME, style_of(NAME))
        figures.note_level(left, 1, NAME)
        figures.mark_loops(left, 1, NAME)
        figures.name_curves(figure, left)
        left.set_yscale("log")
        right.plot([1, 2])
        right.set_yticks([1, 2], [NAME, "b"])
        figure.suptitle(NAME)
        figures.save(figure, tmp_path / "a.png", NAME, [1, 2], {NAME: curve})
    names = {text.get_text() for text in figure.findobj(Text) if isinstance(text, Text)}
    assert {NAME, "0.01", "1", "10"} <= names
    assert not any("mathdefault" in name for name in names)
    assert (tmp_path / "a.csv").read_text(encoding="utf-8").startswith(f"{NAME},{NAME}_mean,")


def test_numbers_within_a_decade_of_a_log_axis_are_plain_text(tmp_path: Path) -> None:
    with figures.styled():
        figure = Figure()
        axes = figure.subplots()
        axes.plot([0.2, 0.3, 0.45])
        axes.set_yscale("log")
        figures.save(figure, tmp_path / "a.png", "x", [], {})
    assert {"0.2", "0.3", "0.4"} == {text.get_text() for text in axes.get_yticklabels()}


def test_names_of_two_numbers_of_loops_do_not_cover_each_other(tmp_path: Path) -> None:
    figure = Figure()
    axes = figure.subplots()
    axes.plot([1, 60], [0, 1])
    for b in (6, 8):
        figures.mark_loops(axes, b)
    figures.save(figure, tmp_path / "picture.png", "loop", [], {})
    first, second = (text.get_window_extent() for text in axes.texts)
    assert not first.overlaps(second)


def test_no_remark_on_a_run_is_wider_than_its_picture(tmp_path: Path) -> None:
    with figures.styled():
        figure = Figure()
        figure.subplots()
        files = ", ".join(["tasks/posterior.py"] * 3)
        pictures = figures.Pictures(tmp_path)
        pictures.title(
            figure, "linear", [f"trained by other code: {files} differ now (again=true)"]
        )
        pictures.save(figure, "picture", "k", [], {})
    (title,) = (text for text in figure.texts if text.get_text().startswith("linear\n"))
    extent = title.get_window_extent()
    assert 0 < extent.x0 < extent.x1 < figure.bbox.width


def test_a_task_and_a_folder_may_hold_dollars(tiny_run: Run, tmp_path: Path) -> None:
    first, second = (replace(tiny_run, path=tmp_path / name) for name in ("$x^$", "a-$y^$"))
    for run in (first, second):
        run.path.mkdir()
    result = compare([first, second], SETTINGS, tmp_path / "$z^$")
    assert (Path(result["path"]) / "figures" / "error_by_loop.png").exists()
