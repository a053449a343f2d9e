"""`python -m experiments.scaling_law`: what it reads, prints, writes, draws and refuses; what a law
says of a size and of a budget."""

import json
from pathlib import Path

import numpy as np
import pytest
from pandas import DataFrame

from looplab.experiments.scaling_law.__main__ import main, read_csv
from looplab.experiments.scaling_law.law import fit_law, fitted
from looplab.experiments.scaling_law.worth import best_sizes
from looplab.show.tables import Table
from tests.experiments.scaling_law.design import crossed, noisy, published_law, sample_table

TABLE = sample_table(published_law(), 0.003, 0)
HEADER = "loss,r,budget,N_once,N_rec,D\n"


def written(table: DataFrame, path: Path) -> Path:
    table.to_csv(path, index=False)
    return path


def test_one_command_fits_shows_and_writes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(TABLE, tmp_path / "mine.csv")
    words = [f"table={path}", "resamples=20", "clusters=[r,budget]", f"folder={tmp_path}"]
    assert main(words) == 0
    out = capsys.readouterr().out
    (folder,) = tmp_path.glob("scaling_law-mine-*")
    assert out.endswith(f"\n{folder}: scaling_law.json, page.html, figures/\n")
    result = json.loads((folder / "scaling_law.json").read_text())
    fit = fit_law(TABLE, {})
    assert result["fit"]["law"]["phi"] == pytest.approx(fit.law.phi)
    assert result["fit"]["huber"] == pytest.approx(fit.huber)
    assert "of 20 resamples of 24 clusters of rows" in out
    low, high = result["intervals"]["low"]["phi"], result["intervals"]["high"]["phi"]
    assert low < result["fit"]["law"]["phi"] < high
    names = {"scaling_law.png", "scaling_law.csv"}
    assert {each.name for each in (folder / "figures").iterdir()} == names
    # Other settings go beside, the same ones into the same place.
    assert main([*words, "E=1.5"]) == 0
    assert "held: E = 1.5" in capsys.readouterr().out
    assert main(words) == 0
    (other,) = set(tmp_path.glob("scaling_law-mine-*")) - {folder}
    assert json.loads((other / "scaling_law.json").read_text())["fit"]["law"]["E"] == 1.5


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("table=minima clusters=[rr]", "has no column rr"),
        ("table=minima E=5", "E must be below every loss, got 5 beside 2.3088 in row "),
        ("table=FILE", "FILE has no column N_once; it has a, b"),
    ],
)
def test_what_no_law_fits_is_one_line_and_nothing_written(
    words: str, expected: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mine.csv"
    file.write_text("a,b\n1,2\n", encoding="utf-8")
    given = [*words.replace("FILE", str(file)).split(), f"folder={tmp_path / 'runs'}"]
    assert main(given) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("experiments.scaling_law: ")
    assert err.count("\n") == 1
    assert expected.replace("FILE", str(file)) in err
    assert not (tmp_path / "runs").exists()


def test_columns_are_found_by_name(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    path.write_text(f"{HEADER}2.5, 4,1e18,0,3e10,1e9\n,,,,,\n2.25,1,10e17,7,5,6\n")
    table = read_csv(path)
    assert table.loss.tolist() == [2.5, 2.25]
    assert table.r.tolist() == [4, 1]
    assert table.N_once.tolist() == [0, 7]
    assert table.budget.tolist() == [1e18, 1e18]


SIZES, DATA, LOOPS = [1e7, 1e8, 1e9], [1e9, 1e10, 1e11], [1.0, 2.0, 4.0]


def test_the_best_size_of_a_budget_is_the_law_s() -> None:
    """No other size of these models has less loss at as many FLOPs."""
    law, budget = published_law(), 1e20
    table = noisy(crossed(SIZES, DATA, LOOPS), law)
    sentence, best = best_sizes(fitted(table, {}, [], 20, seed=0), budget)
    assert isinstance(sentence, str)
    assert "r = 1 has the least loss" in sentence
    assert isinstance(best, Table)
    sizes = np.geomspace(1e7, 1e11, 400)
    for r, row in zip(LOOPS, best.rows, strict=True):
        others = crossed(sizes.tolist(), [1.0], [r])
        others["D"] = budget / (6 * (others.N_once + r * others.N_rec))
        assert float(row[-1]) == pytest.approx(law.loss(others).min(), abs=2e-4)


def test_the_page_holds_tables_and_pictures_and_loads_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is made as the page of any result, and with what was asked for: here what the authors say,
    that at r = 4 a model of 410 M is worth one of 580 M and costs as much as one of 1 B."""
    words = ["table=minima", "size=410e6", "budget=1e19", "resamples=20", f"folder={tmp_path}"]
    assert main(words) == 0
    printed = capsys.readouterr().out
    (row,) = (line for line in printed.split("\n") if line.startswith("4 ") and "593" in line)
    assert row.split()[1:3] == ["593", "M"]
    assert row.split()[-2:] == ["1.01", "B"]
    (page,) = tmp_path.glob("scaling_law-minima-*/page.html")
    text = page.read_text(encoding="utf-8")
    assert "<h1>What one recurrence is worth</h1>" in text
    for size in ("593 M", "1.01 B"):
        assert f">{size}</td>" in text
    assert "<script src" not in text
    assert '<link rel="stylesheet' not in text
    assert text.count("<figure class") == 8  # losses of four r, residuals, sizes, budgets, phi


def test_its_panels_hold_the_law_and_its_refits(tmp_path: Path) -> None:
    """For another phi the law that is fitted anew misses less than one with the others held."""
    law = published_law()
    path = tmp_path / "mine.csv"
    noisy(crossed(SIZES, DATA, LOOPS), law).to_csv(path, index=False)
    assert main([f"table={path}", "resamples=20", f"folder={tmp_path}"]) == 0
    (file,) = tmp_path.glob("scaling_law-mine-*/scaling_law.json")
    panels = {panel["name"]: panel for panel in json.loads(file.read_text())["panels"]}
    phi = panels["phi"]
    assert phi["marks"]["the fit"] == [pytest.approx(law.phi, abs=1e-3)]
    refitted, held = (curve["mean"] for curve in phi["curves"])
    assert refitted[-1] < held[-1]
    assert min(refitted) == min(refitted[8:11])  # the law's phi is .459
    # The law's least loss falls with the budget, and no model measured has less.
    least = panels["least"]
    for line, points in zip(least["curves"][::2], least["curves"][1::2], strict=True):
        assert line["mean"] == sorted(line["mean"], reverse=True)
        lowest = np.interp(np.log(points["x"]), np.log(least["x"]), line["mean"])
        assert (lowest < np.array(points["mean"]) + 2e-3).all()
