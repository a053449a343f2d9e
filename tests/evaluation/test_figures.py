"""What a picture's CSV says is what the picture shows."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from conf.schema import EvaluationConfig
from evaluation import compare, comparison_pictures, evaluate, figures, pictures
from training import Run

SETTINGS = EvaluationConfig(
    prompts=40,
    resamples=30,
    batch_size=16,
    loops=6,
    shifts=("half_subspace", "orthogonal_query", "scaled_w_2"),
)


@pytest.fixture
def saved(monkeypatch: pytest.MonkeyPatch) -> dict[str, Figure]:
    """The figures that were saved, by their file's name."""
    kept: dict[str, Figure] = {}

    def keep(figure: Figure, path: Path, *rest: Any) -> None:
        kept[path.stem] = figure
        figures.save(figure, path, *rest)

    monkeypatch.setattr(pictures, "save", keep)
    monkeypatch.setattr(comparison_pictures, "save", keep)
    return kept


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


def test_colours_and_dashes_tell_thirteen_curves_apart() -> None:
    styles = [tuple(figures.line(index, dashed=True).values()) for index in range(13)]
    assert len(set(styles)) == 13
