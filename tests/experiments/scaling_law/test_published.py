"""The published experiment: the 24 minima."""

import numpy as np
import pytest

from looplab.experiments.scaling_law.__main__ import MINIMA, read_csv
from tests.experiments.scaling_law.design import counts, published, published_law


def test_the_minima_are_the_printed_ones() -> None:
    """Only N is printed: the (fractional) width with as many parameters gives N_once and N_rec, and
    the budget gives D. The law misses them by .0094 nats, which tells that N and D are what its
    authors mean."""
    table = read_csv(MINIMA)
    cells = published()["minima"]["cells"]
    for cell, row in zip(cells, table.to_dict("records"), strict=True):
        block = row["N_rec"] * row["r"] / 16  # 12 d² + 2 d
        model = counts((np.sqrt(1 + 12 * block) - 1) / 12, cell["r"])
        assert model.once + model.rec == pytest.approx(cell["N"] * 1e6)
        expected = (*model[:2], cell["r"], cell["budget"] / model.flops, cell["loss"])
        assert [*row.values()][:5] == pytest.approx(expected)
        assert row["budget"] == cell["budget"]
    missed = published_law().loss(table) - table.loss
    assert np.sqrt((missed**2).mean()) == pytest.approx(0.0094, abs=0.0008)
    assert missed.max() == pytest.approx(0.023, abs=0.002)
