"""What a law says of a size and of a budget."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from looplab.experiments.scaling_law.__main__ import main
from looplab.experiments.scaling_law.law import Law, fitted
from looplab.experiments.scaling_law.worth import best_sizes, page
from looplab.show.tables import Table
from tests.experiments.scaling_law.design import crossed, noisy, published_law

SIZES, DATA, LOOPS = [1e7, 1e8, 1e9], [1e9, 1e10, 1e11], [1.0, 2.0, 4.0]


def test_the_authors_example(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """At r = 4 a model of 410 M is worth one of 580 M and costs as much as one of 1 B."""
    words = ["table=minima", "size=410e6", "resamples=20", f"folder={tmp_path}"]
    assert main(words) == 0
    (row,) = (each for each in capsys.readouterr().out.split("\n") if each.startswith("4 "))
    _, worth, *_, cost, unit = row.split()
    assert 570 < float(worth) < 610
    assert (cost, unit) == ("1.01", "B")


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


def test_the_page_holds_the_law_and_its_refits() -> None:
    """It loads nothing; for another phi the law that is fitted anew loses less than a slice."""
    law = published_law()
    table = noisy(crossed(SIZES, DATA, LOOPS), law)
    text = page(fitted(table, {}, [], 20, seed=0))
    assert "http" not in text
    data = json.loads(text.split("const data = ")[1].split(";\n")[0])
    assert data["fitted"]["phi"] == pytest.approx(law.phi, abs=1e-3)
    refit = Law(**next(each for each in data["laws"] if each["phi"] == 1.0))
    held = replace(law, phi=1.0)
    missed = [
        float(np.square(np.log(each.loss(table) / table.loss)).sum()) for each in (refit, held)
    ]
    assert missed[0] < missed[1]
