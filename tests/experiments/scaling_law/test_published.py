"""The published experiment: counts, FLOPs, the 116 runs and the 24 minima."""

from __future__ import annotations

import numpy as np
import pytest
from pandas.testing import assert_frame_equal

from looplab.experiments.scaling_law.__main__ import MINIMA, read_csv
from tests.experiments.scaling_law.design import (
    counts,
    design,
    minima,
    published_law,
    sample_table,
    width,
)


def test_widths_are_whole_heads() -> None:
    sizes = (6, 8, 10, 12, 14, 16, 18, 20, 24, 28, 34)
    expected = [384, 512, 640, 768, 896, 1024, 1152, 1280, 1536, 1792, 2176]
    assert [width(size) for size in sizes] == expected
    assert width(7) == 512


def test_parameters_are_those_of_the_blocks() -> None:
    """At d = 640 a block has 12 · 640² weights and 2 · 640 numbers in norms: 4,916,480."""
    block = 4_916_480
    once, rec = zip(*((counts(640, r).once, counts(640, r).rec) for r in (1, 2, 4, 8)), strict=True)
    assert rec == (16 * block, 8 * block, 4 * block, 2 * block)
    assert once == (4 * block, *[4 * block + 2 * 640**2] * 3)
    largest = counts(width(20), 1)
    assert largest.once + largest.rec == pytest.approx(393.3e6, rel=2e-4)  # as printed


def test_flops_of_a_token() -> None:
    """Twenty blocks of 4,916,480, a head of 640 · 32,064 and 12 · 20 · 640 · 2048 of attention;
    with r = 4 the injection's 2 · 640² weights four times."""
    assert counts(640, 1).flops == 1_027_676_160
    assert counts(640, 4).flops == 1_047_336_960


def test_the_design_has_116_runs_that_cost_their_budget() -> None:
    table = design()
    budgets = table.budget
    assert len(table) == 116
    by_r = [int((table.r == r).sum()) for r in (1, 2, 4, 8)]
    assert by_r == [29, 29, 29, 29]
    by_budget = [int((budgets == budget).sum()) // 4 for budget in np.unique(budgets)]
    assert by_budget == [4, 5, 5, 6, 5, 4]
    assert not (table.D % 2**18).any()
    smallest = (table.r == 4) & (table.N_rec == 4 * 4_916_480) & (budgets == 1e18)
    # 1e18 over 1,047,336,960 FLOPs a token is 3642.30 batches of 2^18.
    assert table.D[smallest].tolist() == [3642 * 2**18]


def test_losses_are_drawn_about_the_law() -> None:
    law, exact = published_law(), design()
    np.testing.assert_allclose(exact.loss, law.loss(exact))
    samples = [sample_table(law, 0.003, seed).loss / exact.loss for seed in range(20)]
    noise = np.log(samples)
    assert noise.std() == pytest.approx(0.003, rel=0.05)
    assert abs(noise.mean()) < 0.0003


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
