"""Settings of the figures that train: what is refused, and what a figure takes by itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from looplab.conf.mistakes import ConfigError
from looplab.experiments.stability.settings import FIGURES, StabilitySettings


@pytest.mark.parametrize("figure", [name for name in FIGURES if name != "trained"])
def test_a_figure_is_fine_by_itself(figure: str) -> None:
    settings = StabilitySettings(figure)
    settings.check()
    assert settings.all_loops == FIGURES[figure].loops
    assert settings.all_rates == FIGURES[figure].rates
    assert settings.all_seeds == tuple(range(FIGURES[figure].seeds))


def test_what_is_given_counts() -> None:
    settings = StabilitySettings("sweep", loops=(3, 5), rates=(0.1, 0.2, 0.3), seeds=2, seed=7)
    settings.check()
    assert (settings.all_loops, settings.all_rates) == ((3, 5), (0.1, 0.2, 0.3))
    assert settings.all_seeds == (7, 8)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"figure": "swep"}, "figure cannot be 'swep'; did you mean 'sweep'"),
        ({"loops": ()}, "loops must be rising numbers of at least 1"),
        ({"loops": (0, 2)}, "loops must be rising numbers of at least 1"),
        ({"loops": (4, 2)}, "loops must be rising numbers of at least 1"),
        ({"loops": (4,)}, "loops must be at least 2 to compare"),
        ({"rates": (1e-3, 2e-3)}, "rates must be at least 3 to sweep over"),
        ({"rates": (1e-3, 1e-3, 2e-3)}, "rates must be rising numbers above 0"),
        ({"rates": (0.0, 1e-3, 2e-3)}, "rates must be rising numbers above 0"),
        ({"rates": (1e-3, 2e-3, float("inf"))}, "rates must be rising numbers above 0"),
        ({"figure": "variants", "rates": (1e-3, 2e-3)}, "rates must be one for figure=variants"),
        ({"seeds": 0}, "seeds must be at least 1"),
        ({"seed": -1}, "seed must be at least 0"),
        ({"seed": 2**62}, "seed must be below"),
        ({"steps": 0}, "steps must be at least 1"),
        ({"jobs": 0}, "jobs must be at least 1"),
        ({"folder": ""}, "folder must be a folder"),
        ({"folder": __file__}, "folder must be a folder"),
    ],
)
def test_what_cannot_be_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        StabilitySettings(**{"figure": "sweep", **given}).check()


def test_the_folder_need_not_be_there(tmp_path: Path) -> None:
    StabilitySettings("sweep", folder=str(tmp_path / "new")).check()
