"""Figures of stability in a named experiment: measured once, found again, drawn as numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from looplab.conf.mistakes import ConfigError
from looplab.conf.schema import LoopsConfig
from looplab.experiments.measuring import Measurement, Request
from looplab.experiments.named.measures.stability import measure, settings_of
from looplab.experiments.stability import changes, cosines, norms, sweep
from looplab.experiments.stability import near_init as first_steps_module
from looplab.experiments.stability.__main__ import main
from looplab.experiments.stability.settings import FIGURES
from looplab.training import train
from tests.conftest import times_of, tiny_config
from tests.experiments.named.measures.checks import check_panels, handed_over

SHORT = {"loops": [1, 2], "seeds": 2, "steps": 4}
ENTRIES: dict[str, dict[str, Any]] = {
    "toy": {"loops": [1, 3], "seeds": 2},
    "norms": {"loops": [1, 3], "seeds": 2},
    "cosines": {"seeds": 2},
    "changes": {"loops": [1, 4, 6], "seeds": 2},
    "sweep": {**SHORT, "rates": [1e-3, 1e-2, 1e30]},
    "contrast": {**SHORT, "rates": [1e-3, 1e-2, 2e-2]},
    "variants": SHORT,
    "fully_looped": {**SHORT, "steps": 20},
}


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few steps and few loops."""
    for module, name, value in (
        *((module, "STEPS", 2) for module in (changes, norms, first_steps_module)),
        (changes, "_FACTORS", (0.5,)),
        (cosines, "LOOPS", 3),
        (cosines, "LAYERS", 2),
    ):
        monkeypatch.setattr(module, name, value)


SLOW = ("variants", "fully_looped", "contrast")


def asked(folder: Path, *entries: Mapping[str, Any], stored_only: bool = False) -> Measurement:
    return measure(Request(entries, (), str(folder), 1, stored_only))


@pytest.mark.parametrize(
    "figure",
    [pytest.param(each, marks=[pytest.mark.slow] * (each in SLOW)) for each in ENTRIES],
)
def test_each_figure_is_measured_once_and_drawn_as_numbers(figure: str, tmp_path: Path) -> None:
    entry = {"figure": figure, **ENTRIES[figure]}
    nothing = asked(tmp_path, entry, stored_only=True)
    assert (nothing.results, list(nothing.panels)) == ({}, [])
    (line,) = nothing.missing
    assert line.startswith(f"python -m experiments.stability figure={figure} ")
    assert line.endswith("not measured yet")
    assert not list(tmp_path.iterdir())

    found = asked(tmp_path, entry)
    assert found.missing == []
    assert list(found.results) == ["stability"]
    assert list(found.results["stability"]) == [figure]
    check_panels(found.panels)
    again = asked(tmp_path, entry, stored_only=True)
    assert (again.results, again.panels) == (found.results, found.panels)


def test_every_figure_has_panels() -> None:
    assert {*ENTRIES, "trained"} == set(FIGURES)


def test_the_command_finds_the_same_result(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked(tmp_path, {"figure": "toy", **ENTRIES["toy"]})
    folder = tmp_path / "experiments" / "stability"
    kept = times_of(folder, "measured/*.json")
    assert main(["figure=toy", "loops=[1,3]", "seeds=2", f"folder={folder}"]) == 0
    assert times_of(folder, "measured/*.json") == kept
    assert "‖h_R‖" in capsys.readouterr().out


def test_curves_are_the_results_means(tmp_path: Path) -> None:
    found = asked(tmp_path, {"figure": "norms", **ENTRIES["norms"]})
    panels = {panel.name: panel for panel in found.panels}
    panel = panels["norms-non-shared-sqrt"]
    norm = found.results["stability"]["norms"]["norm"]["non_shared"]["sqrt"]
    assert list(panel.x) == [0, 1, 2]
    assert [curve.number for curve in panel.curves] == [1, 3]
    for curve, means in zip(panel.curves, norm["mean"], strict=True):
        assert curve.mean == pytest.approx(means)


def test_what_diverged_leaves_the_curve() -> None:
    cell = {"errors": [[0.5, 0.7], [0.4, None], [None, None]]}
    result = {
        "figure": "sweep", "what": "a loop", "rates": [1e-3, 1e-2, 1e-1], "zero": 1.0, "bayes": 0.3,
        "scalings": {"sqrt": {"2": cell}, "linear": {"2": cell}},
        "best": {"sqrt": {"2": None}, "linear": {"2": None}},
    }  # fmt: skip
    panels = sweep.panels(result)
    assert check_panels(panels) == ["sweep-sqrt", "sweep-linear"]
    (curve,) = panels[0].curves
    assert curve.mean == [pytest.approx(0.6), 0.4, None]
    assert (curve.low, curve.high) == ([0.5, None, None], [0.7, None, None])
    assert "3 of 6 runs collapsed" in panels[0].title


def test_a_file_chooses_among_the_panels(tmp_path: Path) -> None:
    entry = {"figure": "changes", **ENTRIES["changes"]}
    everything = check_panels(asked(tmp_path, entry).panels)
    steps = check_panels(asked(tmp_path, {**entry, "panels": ["changes-by-step"]}).panels)
    assert steps == [name for name in everything if name.startswith("changes-by-step")]
    assert 0 < len(steps) < len(everything)


def test_trained_runs_are_the_experiments_own(tmp_path: Path) -> None:
    config = tiny_config(tmp_path)
    model = replace(config.model, injection="none", norm="at_readout", residual_scaling="linear")
    training = replace(config.training, steps=2)
    runs = []
    for b, seed in ((2, 0), (2, 1), (3, 0)):
        loops = LoopsConfig(b, 1, "all")
        run = train(replace(config, model=model, training=training, loops=loops, seed=seed))
        runs.append(handed_over(run, f"R = {b}"))
    found = measure(Request([{"figure": "trained"}], runs, str(tmp_path), 1))
    assert check_panels(found.panels) == [
        "trained-norms", "trained-cosines-1", "trained-cosines-2", "trained-cosines-by-distance",
    ]  # fmt: skip
    norms_of = found.panels[0].curves
    assert [curve.label for curve in norms_of] == ["R = 2", "R = 3"]
    assert norms_of[0].mean[3] is None
    result = found.results["stability"]["trained"]
    assert len(result["runs"]) == 3
    both = np.mean([run["norm"]["mean"] for run in result["runs"][:2]], axis=0)
    assert norms_of[0].mean[:3] == pytest.approx(both.tolist())


def test_without_a_finished_run_there_is_nothing_to_follow(tmp_path: Path) -> None:
    found = asked(tmp_path, {"figure": "trained"})
    assert found.results == {}
    assert found.missing == ["figure=trained: none of its runs is finished"]


def test_a_run_that_cannot_be_measured_is_said(tmp_path: Path) -> None:
    run = handed_over(train(tiny_config(tmp_path)), "looped")
    for path in (Path(run.path) / "checkpoints").iterdir():
        path.unlink()
    entries = ({"figure": "trained"}, {"figure": "toy", **ENTRIES["toy"]})
    found = measure(Request(entries, [run], str(tmp_path), 1))
    assert list(found.results["stability"]) == ["toy"]
    (line,) = found.missing
    assert line.startswith("figure=trained: ")


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"figure": "toys"}, "figure cannot be 'toys'; did you mean 'toy'?"),
        ({"figure": "toy", "lops": 3}, "lops is not a setting; did you mean 'loops'?"),
        ({"figure": "toy", "steps": 3}, "steps does not bear on figure=toy"),
        ({"figure": "toy", "folder": "x"}, "folder is not for an experiment's file"),
        ({"seeds": 3}, "figure must be given"),
    ],
)
def test_a_mistake_in_a_file_is_one_line(entry: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=said.replace("?", r"\?").replace("(", r"\(")):
        settings_of(entry, Request((), (), str(tmp_path), 1))
