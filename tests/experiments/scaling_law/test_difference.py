"""What one change does to phi: a known difference is found again, and one that cannot be told is
not."""

from dataclasses import replace
from pathlib import Path

import pytest

from looplab.experiments.scaling_law.__main__ import main
from looplab.experiments.scaling_law.law import Difference, difference
from tests.experiments.scaling_law.design import design, noisy, published_law

LAW = published_law()
DESIGN = design()
# The authors' probes: r of 2 and more, the four lower budgets.
PROBES = DESIGN[(DESIGN.r > 1) & (DESIGN.budget < 1e19)]


def found(phi: float, noise: float, every: int = 1) -> Difference:
    changed = noisy(PROBES[::every], replace(LAW, phi=phi), noise, seed=1)
    return difference(noisy(DESIGN, LAW, noise), changed, {}, ["r", "budget"], 20, seed=0)


@pytest.mark.parametrize("phi", [0.38, 0.65])
def test_a_known_difference_is_found_again(phi: float) -> None:
    of = found(phi, 0.001)
    assert of.low is not None
    assert of.high is not None
    assert of.low - 0.02 < phi - LAW.phi < of.high + 0.02
    assert of.settled()
    assert of.runs_needed() is None
    assert of.shared == (DESIGN.r == 1).sum()  # the changed models have no r of 1


def test_what_scatter_hides_is_not_settled() -> None:
    of = found(LAW.phi + 0.02, 0.01, every=3)
    assert not of.settled()
    needed = of.runs_needed()
    assert needed is None or needed > len(PROBES[::3])


def test_the_command_compares_a_table_with_itself(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "runs.csv"
    noisy(DESIGN, LAW, 0.003).to_csv(path, index=False)
    words = [f"table={path}", f"changed={path}", "clusters=[r,budget]", "resamples=20"]
    assert main([*words, f"folder={tmp_path}"]) == 0
    line = "phi with the change less phi without it: 0 (0 to 0): not settled"
    assert line in capsys.readouterr().out
