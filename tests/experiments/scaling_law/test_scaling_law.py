"""`python -m experiments.scaling_law`: what it prints, writes, draws and refuses."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from looplab.evaluation.figures import Pictures
from looplab.experiments.scaling_law.__main__ import main
from looplab.experiments.scaling_law.fit import fit_law
from looplab.experiments.scaling_law.pictures import draw_scaling, parabola_minimum
from looplab.experiments.scaling_law.problem import Law
from looplab.experiments.scaling_law.published import minima
from looplab.experiments.scaling_law.table import ScalingTable
from tests.experiments.scaling_law.design import published_law, sample_table

TABLE = sample_table(published_law(), 0.003, 0)


def written(table: ScalingTable, path: Path, labels: Sequence[str] = ("budget",)) -> Path:
    columns = {name: getattr(table, name) for name in ("N_once", "N_rec", "r", "D", "loss")}
    columns |= {name: table.labels[name] for name in labels}
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return path


def columns_of(path: Path) -> dict[str, NDArray[np.float64]]:
    with open(path, encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return {name: np.array([float(row[name] or "nan") for row in rows]) for name in rows[0]}


def drawn_in(axes: Axes) -> list[NDArray[np.float64]]:
    """y of each line in a panel; of a curve, its law, its models and its minimum in turn."""
    return [np.asarray(line.get_ydata(), dtype=np.float64) for line in axes.lines]


def test_one_command_fits_shows_and_writes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(TABLE, tmp_path / "mine.csv")
    words = [f"table={path}", "resamples=20", "clusters=[r,budget]", f"folder={tmp_path}"]
    assert main(words) == 0
    out = capsys.readouterr().out
    (folder,) = tmp_path.glob("scaling_law-mine-*")
    assert out.endswith(f"\n{folder}: scaling_law.json, figures/\n")
    result = json.loads((folder / "scaling_law.json").read_text())
    assert list(result["fits"]) == ["free", "phi = 0", "phi = 1"]
    for held, name in (({}, "free"), ({"phi": 0.0}, "phi = 0"), ({"phi": 1.0}, "phi = 1")):
        fit = fit_law(TABLE, held)
        entry = result["fits"][name]
        assert entry["law"]["phi"] == pytest.approx(fit.law.phi)
        assert entry["huber"] == pytest.approx(fit.huber)
        assert entry["r2"] == pytest.approx(fit.r2)
        (line,) = (each for each in out.splitlines() if each.startswith(name))
        shown = line.removeprefix(name).split()
        assert shown[5:] == [f"{fit.law.phi:.4g}", f"{fit.huber:.2e}", f"{fit.r2:.5f}"]
    assert result["clusters"] == {"columns": ["r", "budget"], "number": 24}
    assert "20 resamples of 24 clusters (rows with the same r, budget)" in out
    low, high = result["intervals"]["low"]["phi"], result["intervals"]["high"]["phi"]
    assert low < result["fits"]["free"]["law"]["phi"] < high
    lines = out.splitlines()
    under = lines.index(next(each for each in lines if each.startswith("free")))
    assert lines[under + 1].split()[-1] == f"{low:.4g}"
    assert lines[under + 2].split()[-1] == f"{high:.4g}"
    assert {each.name for each in (folder / "figures").iterdir()} == {
        "drawn.json",
        "scaling_law.png",
        "scaling_law.csv",
    }
    # Other settings go beside, the same ones into the same place.
    assert main([*words, "E=1.5"]) == 0
    assert "held: E = 1.5" in capsys.readouterr().out
    assert main(words) == 0
    one, two = tmp_path.glob("scaling_law-mine-*")
    (other,) = {one, two} - {folder}
    fits = json.loads((other / "scaling_law.json").read_text())["fits"]
    assert [fit["law"]["E"] for fit in fits.values()] == pytest.approx([1.5] * 3)


@pytest.mark.slow
def test_the_published_minima_come_with_the_project(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["table=minima", "resamples=20", f"folder={tmp_path}"]) == 0
    out = capsys.readouterr().out
    assert "24 rows, r = 1, 2, 4, 8" in out
    assert "20 resamples of 24 rows;" in out
    (folder,) = tmp_path.glob("scaling_law-minima-*")
    result = json.loads((folder / "scaling_law.json").read_text())
    assert result["rows"]["loss"] == minima().loss.tolist()


def test_an_exponent_at_the_edge_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    axes = np.meshgrid([1.0, 3.0, 10.0, 40.0], [1.0, 8.0, 60.0], [1.0, 2.0, 4.0])
    size, data, r = (axis.ravel() for axis in axes)
    table = ScalingTable(size, 16 * size / r, r, data, size)
    losses = Law(1.0, 3.0, 2.0, 0.3, 0.4, 6.0).loss(table)
    table = ScalingTable(size, 16 * size / r, r, data, losses)
    path = written(table, tmp_path / "mine.csv", ())
    assert main([f"table={path}", "resamples=20", f"folder={tmp_path}"]) == 0
    out = capsys.readouterr().out
    assert "free: phi ended at the edge of the range searched: undetermined" in out
    assert "95 %: phi at the edge of the range searched: the interval is open" in out
    (line,) = (each for each in out.splitlines() if each.startswith("95 % "))
    assert line.split()[-1] == "edge"
    (folder,) = tmp_path.glob("scaling_law-mine-*")
    found = json.loads((folder / "scaling_law.json").read_text())["intervals"]
    assert "phi" in found["high_at_edge"]


def test_the_picture_shows_the_table_and_the_law(tmp_path: Path, saved: dict[str, Figure]) -> None:
    law = published_law()
    with Pictures(tmp_path) as pictures:
        draw_scaling(TABLE, law, pictures)
    known = columns_of(tmp_path / "scaling_law.csv")
    order = np.lexsort((TABLE.parameters, TABLE.groups(["r", "budget"])))
    np.testing.assert_allclose(known["N"], TABLE.parameters[order])
    np.testing.assert_allclose(known["model_r"], TABLE.r[order])
    np.testing.assert_allclose(known["model_D"], TABLE.D[order])
    np.testing.assert_allclose(known["loss_measured"], TABLE.loss[order])
    np.testing.assert_allclose(known["loss_law"], law.loss(TABLE)[order])
    expected = [100 * math.log(a / b) for a, b in zip(TABLE.loss, law.loss(TABLE), strict=True)]
    np.testing.assert_allclose(known["residual_percent"], np.array(expected)[order])
    figure = saved["scaling_law"]
    assert figure.get_suptitle().endswith("; stars: lowest points of parabolas")
    above, below = figure.axes[:4], figure.axes[4:]
    assert [axes.get_title() for axes in above] == ["r = 1", "r = 2", "r = 4", "r = 8"]
    first = TABLE.groups(["r", "budget"])[order] == 0
    rows = order[first]
    lowest = parabola_minimum(TABLE.parameters[rows], TABLE.loss[rows])
    assert lowest is not None
    assert (known["minimum_N"][0], known["minimum_loss"][0]) == pytest.approx(lowest)
    np.testing.assert_array_equal(above[0].lines[0].get_xdata(), TABLE.parameters[rows])
    curve, measured, minimum = drawn_in(above[0])[:3]
    np.testing.assert_array_equal(curve, law.loss(TABLE)[rows])
    np.testing.assert_array_equal(measured, TABLE.loss[rows])
    np.testing.assert_array_equal(minimum, [lowest[1]])
    residuals = np.concatenate(drawn_in(below[0])[:6])
    assert sorted(residuals) == pytest.approx(sorted(np.array(expected)[TABLE.r == 1]))
    # A budget has one colour in all panels, and a name.
    assert above[0].lines[0].get_color() == above[3].lines[0].get_color()
    (legend,) = figure.legends
    names = [text.get_text() for text in legend.get_texts()]
    assert names[0] == "budget 4.64e+17"
    assert len(names) == 6


def test_curves_without_a_budget(tmp_path: Path, saved: dict[str, Figure]) -> None:
    """Models of one D are a curve; where none shares its D, those of one r."""
    axes = np.meshgrid([1e3, 3e3, 1e4], [100.0, 800.0], [1.0, 4.0])
    size, data, r = (axis.ravel() for axis in axes)
    law = Law(0.3, 4.0, 5.0, 0.7, 0.3, 0.5)
    table = ScalingTable(size, size, r, data, size)
    with Pictures(tmp_path) as pictures:
        draw_scaling(ScalingTable(size, size, r, data, law.loss(table)), law, pictures)
    by_data = saved["scaling_law"]
    with Pictures(tmp_path) as pictures:
        draw_scaling(minima(), published_law(), pictures)
    by_r = saved["scaling_law"]
    assert [len(y) for y in drawn_in(by_data.axes[0])] == [3, 3, 1] * 2
    assert [text.get_text() for text in by_data.legends[0].get_texts()] == ["D 100", "D 800"]
    assert [len(y) for y in drawn_in(by_r.axes[0])] == [6, 6, 1]
    assert not by_r.legends
    assert by_r.get_suptitle() == "circles: measured; lines: the law"  # no parabola has a minimum


@pytest.mark.parametrize(
    ("words", "code", "expected"),
    [
        ("", 2, "table must name a CSV file, or minima: table=runs.csv"),
        ("table=nowhere.csv", 2, "table must be a CSV file or minima, got 'nowhere.csv'"),
        ("table=minima E=-1", 2, "E must be at least 0, got -1.0"),
        ("table=minima E=.inf", 2, "E must be at least 0, got inf"),
        ("table=minima resamples=5", 2, "resamples must be at least 20, got 5"),
        ("table=minima seed=-1", 2, "seed must be at least 0, got -1"),
        ("table=minima cluster=r", 2, "cluster is not a setting; did you mean 'clusters'"),
        ("table=minima clusters=[rr]", 1, "has no column rr"),
        ("table=minima E=5", 1, "E must be below every loss, got 5 beside 2.3088 in row "),
        ("table=FILE", 1, "FILE has no column N_once; it has a, b"),
    ],
)
def test_a_mistake_is_one_line_and_writes_nothing(
    words: str, code: int, expected: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mine.csv"
    file.write_text("a,b\n1,2\n", encoding="utf-8")
    given = [*words.replace("FILE", str(file)).split(), f"folder={tmp_path / 'runs'}"]
    assert main(given) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("experiments.scaling_law: ")
    assert err.count("\n") == 1
    assert expected.replace("FILE", str(file)) in err
    assert not (tmp_path / "runs").exists()


def test_help_names_the_columns_and_settings(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    for name in ("N_once", "N_rec", "r, D", "loss", "resamples=200", "table=minima"):
        assert name in out


def test_models_that_loop_once_give_the_law_without_phi(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    law = Law(2, 50, 100, 0.3, 0.25, 0)
    sizes = np.array([(n * 1e6, d * 1e9) for n in (1, 3, 10, 30) for d in (1, 3, 10)])
    ones = np.ones(len(sizes))
    table = ScalingTable(0 * ones, sizes[:, 0], ones, sizes[:, 1], ones)
    table = ScalingTable(0 * ones, sizes[:, 0], ones, sizes[:, 1], law.loss(table))
    path = written(table, tmp_path / "plain.csv", labels=())
    assert main([f"table={path}", "resamples=20", f"folder={tmp_path}"]) == 0
    assert "r is 1 in every row: fitted without phi" in capsys.readouterr().out
    (kept,) = tmp_path.glob("scaling_law-plain-*/scaling_law.json")
    fits = json.loads(kept.read_text())["fits"]
    assert [*fits] == ["free"]
    found = fits["free"]["law"]
    for name in ("E", "A", "alpha", "B", "beta"):
        assert found[name] == pytest.approx(getattr(law, name), rel=1e-2)
