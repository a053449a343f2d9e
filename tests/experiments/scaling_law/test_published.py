"""The published experiment: the 24 minima."""

import numpy as np
import pytest
from pandas.testing import assert_frame_equal

from looplab.experiments.scaling_law.__main__ import MINIMA, read_csv
from tests.experiments.scaling_law.design import counts, minima, published_law


def test_the_minima_are_the_printed_ones() -> None:
    """The law misses them by .0094 nats, which tells that N and D are what its authors mean."""
    table = read_csv(MINIMA)
    assert_frame_equal(table, minima(), rtol=1e-15)
    assert len(table) == 24
    cell = int((table.budget == 1e18).argmax()) + 2
    parameters = table.N_once + table.N_rec
    assert table.r[cell] == 4
    assert table.loss[cell] == 2.7963
    assert parameters[cell] == pytest.approx(45.3e6)
    assert parameters[0] == pytest.approx(67.8e6)  # r = 1, without an injection
    assert table.N_rec[cell] / table.N_once[cell] == pytest.approx(4 / (4 + 1 / 6), rel=2e-3)
    width = np.sqrt(table.N_rec[cell] / 4 / 12)
    assert table.D[cell] == pytest.approx(1e18 / counts(width, 4).flops, rel=2e-3)
    missed = published_law().loss(table) - table.loss
    assert np.sqrt((missed**2).mean()) == pytest.approx(0.0094, abs=0.0008)
    assert missed.max() == pytest.approx(0.023, abs=0.002)
