"""`python -m experiments.scaling_law`: what it prints, writes, draws and refuses."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from looplab.evaluation.panel import Curve, Panel
from looplab.experiments.scaling_law.__main__ import main
from looplab.experiments.scaling_law.certainty import Certainty
from looplab.experiments.scaling_law.law import NAMES, Fit, Law, fit_law
from looplab.experiments.scaling_law.published import minima
from looplab.experiments.scaling_law.report import Fitted, panels, parabola_minimum
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


def law_of(table: ScalingTable, law: Law) -> Fitted:
    """What panels are made of, with a law that was not fitted."""
    ends = {name: getattr(law, name) for name in NAMES}
    known = Certainty(ends, ends, 20, (), (), {}, {})
    fits = {"free": Fit(law, 0.0, 1.0, (), ())}
    return Fitted(table, {}, (), len(table), 20, 0, fits, known)


def parts(panel: Panel) -> list[list[Curve]]:
    """Of a panel for one r the law's lines, the models and the lowest points of parabolas."""
    lowest = [curve for curve in panel.curves if curve.label.startswith("lowest")]
    rest = [curve for curve in panel.curves if curve not in lowest]
    return [[c for c in rest if not c.points], [c for c in rest if c.points], lowest]


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
        f"{name}.{form}"
        for name in ("scaling_law", "scaling_law-by-phi", "scaling_law-r2")
        for form in ("png", "csv")
    }
    assert result["settings"] == {
        "table": str(path), "E": None, "clusters": ["r", "budget"], "resamples": 20, "seed": 0,
    }  # fmt: skip
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


def test_the_picture_shows_the_table_and_the_law() -> None:
    law = published_law()
    *by_r, residuals, _, _ = panels(law_of(TABLE, law))
    assert [panel.name for panel in by_r] == ["loss-r-1", "loss-r-2", "loss-r-4", "loss-r-8"]
    assert {panel.picture for panel in (*by_r, residuals)} == {"scaling_law"}
    curves, models, lowest = parts(by_r[0])
    rows = np.flatnonzero(TABLE.groups(["r", "budget"]) == 0)
    rows = rows[np.argsort(TABLE.parameters[rows])]
    assert models[0].label == "budget 4.64e+17"
    assert (models[0].x, models[0].mean) == (
        TABLE.parameters[rows].tolist(), TABLE.loss[rows].tolist(),
    )  # fmt: skip
    assert curves[0].mean == pytest.approx(law.loss(TABLE)[rows].tolist())
    lowest_point = parabola_minimum(TABLE.parameters[rows], TABLE.loss[rows])
    assert (lowest[0].x, lowest[0].mean) == tuple([each] for each in lowest_point or ())
    # A budget has one colour in all panels, the first the lightest.
    assert [len(parts(panel)[1]) for panel in by_r] == [6] * 4
    numbers = [[curve.number or 0 for curve in parts(panel)[1]] for panel in by_r]
    assert numbers[0] == numbers[3] == sorted({*numbers[0]})
    missed = [100 * math.log(a / b) for a, b in zip(TABLE.loss, law.loss(TABLE), strict=True)]
    assert residuals.curves[0].mean == pytest.approx(np.array(missed)[TABLE.r == 1].tolist())


def test_curves_without_a_budget() -> None:
    """Models of one D are a curve; where none shares its D, those of one r."""
    axes = np.meshgrid([1e3, 3e3, 1e4], [100.0, 800.0], [1.0, 4.0])
    size, data, r = (axis.ravel() for axis in axes)
    law = Law(0.3, 4.0, 5.0, 0.7, 0.3, 0.5)
    table = ScalingTable(size, size, r, data, size)
    table = ScalingTable(size, size, r, data, law.loss(table))
    curves, models, _ = parts(panels(law_of(table, law))[0])
    assert [len(curve.mean) for curve in (*curves, *models)] == [3] * 4
    assert [curve.label for curve in models] == ["D 100", "D 800"]
    curves, models, lowest = parts(panels(law_of(minima(), published_law()))[0])
    assert [len(curve.mean) for curve in (*curves, *models)] == [6, 6]
    assert not lowest  # no parabola has a minimum


def test_the_slider_over_phi_has_the_best_fit_at_each() -> None:
    size, data, r = (
        axis.ravel() for axis in np.meshgrid([1e3, 3e3, 1e4], [100.0, 800.0, 5e3], [1.0, 2.0, 4.0])
    )
    law = Law(0.3, 40.0, 5.0, 0.7, 0.3, 0.45)
    table = ScalingTable(size / 4, size / r, r, data, size)
    noise = np.exp(np.random.default_rng(0).normal(0, 2e-3, len(table)))
    table = ScalingTable(size / 4, size / r, r, data, law.loss(table) * noise)
    fit = fit_law(table)
    result = replace(law_of(table, fit.law), fits={"free": fit})
    by_phi, r2 = panels(result)[-2:]
    assert (by_phi.slider, by_phi.start) == ("φ", fit.law.phi)
    phis = sorted({curve.at for curve in by_phi.curves if curve.at is not None})
    assert (phis[0], phis[-1], r2.x) == (-0.2, 1.2, phis)
    for phi in (0.0, 1.0):  # as found from a grid of starts
        expected = fit_law(table, {"phi": phi})
        assert r2.curves[0].mean[phis.index(phi)] == pytest.approx(expected.r2, abs=1e-3)
        points = [curve for curve in by_phi.curves if curve.at == phi and curve.points]
        assert [curve.label for curve in points] == ["r = 1", "r = 2", "r = 4"]
        of_two = table.r == 2
        assert points[1].x == pytest.approx((table.N_once + 2**phi * table.N_rec)[of_two].tolist())
        assert points[1].mean == table.loss[of_two].tolist()
    known = panels(replace(result, fixed={"phi": fit.law.phi}))[-1]
    assert known.x == [fit.law.phi]


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
