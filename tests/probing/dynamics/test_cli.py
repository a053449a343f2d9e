"""`python -m probing.dynamics` end to end: what it writes, keeps and refuses."""

import json
import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Generator

from looplab.probing.dynamics import measure as dynamics_run
from looplab.probing.dynamics.__main__ import main
from looplab.probing.dynamics.measure import dynamics, summary
from looplab.probing.dynamics.trajectory import Movements, follow, prompts_on, spectral_norm
from looplab.probing.settings import DynamicsSettings
from looplab.training import Run
from looplab.training.run_folder.checkpoint import newest_checkpoint, save_checkpoint
from looplab.training.run_folder.run import RunFolder
from looplab.training.validation import evaluation_prompts
from tests.conftest import times_of

FIGURES = {"norm", "change", "increment_cosines", "residual"}


def test_one_command_measures_draws_keeps_and_shows(
    tiny_run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [f"run={tiny_run.path}", "loops=20", "prompts=20", "seed=3", "device=cpu"]
    assert main(words) == 0
    out = capsys.readouterr().out
    assert out.endswith(f"{tiny_run.path}: dynamics.json, probing/dynamics/\n")
    folder = tiny_run.path / "probing" / "dynamics"
    result = json.loads((tiny_run.path / "dynamics.json").read_text())
    assert {path.name for path in folder.iterdir() if path.is_file()} == {
        f"{name}.{kind}" for name in FIGURES for kind in ("png", "csv")
    }
    # b is 4: angles up to 3 b, the rest as far as asked.
    ranges = {"norm": (0, 20), "change": (1, 20), "residual": (1, 20), "cosines": (1, 12)}
    for part, (first, last) in ranges.items():
        assert result[part]["loop"] == list(range(first, last + 1))
    assert result["contraction"]["loop"] == 20
    assert len(result["contraction"]["spectral_norm"]["by_prompt"]) == 20
    # The same command shows what is kept, and mistakes all the same; another seed is measured anew.
    kept = times_of(folder, "kept/*")
    assert main(words) == 0
    assert capsys.readouterr().out == out
    assert main([*words[:-1], "device=abacus"]) == 2
    assert times_of(folder, "kept/*") == kept
    again = dynamics(DynamicsSettings(str(tiny_run.path), loops=20, prompts=20, seed=4))
    assert again["norm"]["stream"] != result["norm"]["stream"]


@pytest.mark.usefixtures("undrawn")
def test_the_numbers_are_those_of_the_runs_states(tiny_run: Run) -> None:
    """In batches of 16 or not, by the model in float64 on the evaluation prompts of the seed."""
    result = dynamics(DynamicsSettings(str(tiny_run.path), loops=6, prompts=20, seed=3))
    prompts = evaluation_prompts(tiny_run.task, 20, 7, 3)
    model = tiny_run.model.requires_grad_(False).double()
    batch, at_once = prompts_on(model, prompts), Movements(6)
    at_once.add(follow(model, batch, 6))
    whole = summary(at_once, 3)
    for part in ("norm", "change", "cosines", "residual"):
        np.testing.assert_allclose(_flat(result[part]), _flat(whole[part]), rtol=1e-9)
    followed = follow(model, batch, 6)
    *_, last = followed.states
    assert followed.one_loop is not None
    norm = spectral_norm(followed.one_loop, last.stream, Generator().manual_seed(3)).values
    found = result["contraction"]["spectral_norm"]["by_prompt"]
    assert found == pytest.approx(norm.tolist(), rel=1e-4)
    raw = last.raw.norm(dim=-1).mean(1)
    assert result["norm"]["raw"]["mean"][-1] == pytest.approx(raw.mean().item())
    assert result["norm"]["raw"]["low"][-1] < raw.mean() < result["norm"]["raw"]["high"][-1]


def _flat(part: Any) -> np.ndarray[Any, Any]:
    """All numbers in a part of a result."""
    if isinstance(part, dict):
        return np.concatenate([_flat(value) for value in part.values()])
    return np.array(part, dtype=np.float64).ravel()


@pytest.mark.usefixtures("undrawn")
def test_new_weights_and_lost_figures_are_measured_anew(tiny_run: Run) -> None:
    settings = DynamicsSettings(str(tiny_run.path), loops=4, prompts=4)
    before = dynamics(settings)
    picture = tiny_run.path / "probing" / "dynamics" / "norm.png"
    picture.unlink()
    dynamics(settings)
    assert picture.exists()
    folder = RunFolder(tiny_run.path).checkpoints
    checkpoint, _ = newest_checkpoint(folder)
    assert checkpoint
    changed = {"model.read_in.weight": 2 * checkpoint.tensors["model.read_in.weight"]}
    save_checkpoint(folder, tiny_run.step, checkpoint.tensors | changed)
    assert dynamics(settings)["norm"] != before["norm"]


def test_states_that_are_not_finite_are_said_so(
    tiny_run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with torch.no_grad():
        tiny_run.model.get_parameter("loop.norm.weight").fill_(math.inf)
    monkeypatch.setattr(dynamics_run, "load_run", lambda _: tiny_run)
    assert main([f"run={tiny_run.path}", "loops=5"]) == 1
    assert "its states are not finite by loop 5" in capsys.readouterr().err
    assert not (tiny_run.path / "probing").exists()
