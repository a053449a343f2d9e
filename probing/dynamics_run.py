"""Measure the dynamics of a run and keep them in its folder: probing/dynamics.json and figures.

result = dynamics(DynamicsSettings("runs/NAME", loops=200))
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor
from tqdm import tqdm

from conf.checks import ConfigError
from evaluation import load_run
from evaluation.bootstrap import bootstrap
from evaluation.cache import Arrays
from evaluation.errors import evaluation_prompts
from evaluation.measure import weights_digest
from models import Model
from tasks import Prompts
from training.assemble import trained_loops
from training.device import place
from training.files import read_json, write_json
from training.run import Run, RunError, RunFolder

from .dynamics_figures import draw_dynamics, figure_names
from .dynamics_settings import DynamicsSettings, resolved
from .jacobian import Estimate, one_loop, spectral_norm, spectral_radius
from .trajectory import Movements, follow

_FORMAT = 1  # of dynamics.json; another one is measured anew
_RESAMPLES = 1000  # of the bootstrap
_NEAR = 3  # times b: how far the angles between all pairs of increments go
_BATCH = 16  # prompts at once, and fewer where their increments would take
_BATCH_BYTES = 2**27  # more than this


def dynamics(settings: DynamicsSettings) -> dict[str, Any]:
    """What the states of a run's newest checkpoint do, loop by loop, as plain values.

    Read from the run folder where it stands there for the same weights and settings; otherwise
    measured, written and drawn. Raises ConfigError for what cannot be measured of this run,
    RunError for a run without a good checkpoint, whose states are not finite, or whose folder
    another process holds.
    """
    settings, _ = resolved(settings)
    run = load_run(settings.run)
    folder = run.path / "probing"
    asked = {
        "format": _FORMAT,
        "step": run.step,
        "weights": weights_digest(run.model),
        "settings": {k: v for k, v in asdict(settings).items() if k not in ("run", "device")},
    }
    kept = read_json(folder / "dynamics.json")
    if kept and {key: kept.get(key) for key in asked} == asked and _drawn(kept, run):
        return dict(kept)
    model = _prepared(run, settings.device)
    with RunFolder(run.path).lock():
        result = asked | _measured(run, model, settings)
        draw_dynamics(result, folder)
        write_json(folder / "dynamics.json", result)
    return result


def _measured(run: Run, model: Model, settings: DynamicsSettings) -> dict[str, Any]:
    assert settings.loops is not None
    b, config = trained_loops(run.config), run.config
    near = min(settings.loops, _NEAR * b)
    prompts = evaluation_prompts(run.task, settings.prompts, config.task.points, settings.seed)
    movements, stretched = Movements(near), list[tuple[Estimate, Estimate]]()
    generator = Generator().manual_seed(settings.seed)
    repeats = model.loop.most_loops is None
    size = _batch_size(prompts, near, config.model.n_embd)
    with tqdm(
        total=len(prompts), desc="dynamics", unit="prompt", delay=2, leave=False, disable=None
    ) as bar:
        for first in range(0, len(prompts), size):
            batch = _on(model, prompts[first : first + size])
            trajectory = follow(model, batch, settings.loops)
            last = movements.add(trajectory)
            if not bool(last.isfinite().all()):
                raise RunError(f"{run.path}: its states are not finite by loop {settings.loops}")
            if repeats:
                step = one_loop(model.loop, trajectory.e)
                norm = spectral_norm(step, last, generator)
                stretched.append((norm, spectral_radius(step, last, generator)))
            bar.update(len(batch))
    result: dict[str, Any] = {
        "task": config.task.name,
        "family": config.model.family,
        "dims": config.task.dims,
        "b": b,
        "loops": settings.loops,
        "prompts": settings.prompts,
        **_by_loop(movements, settings, near),
    }
    if repeats:
        arrays = movements.arrays()
        loops = list(range(1, settings.loops))
        result["residual"] = {"loop": loops, **_interval(arrays["residual"], settings)}
        norms, radii = zip(*stretched, strict=True)
        result["contraction"] = {"loop": settings.loops, **_contraction(norms, radii, settings)}
    return result


def _by_loop(movements: Movements, settings: DynamicsSettings, near: int) -> dict[str, Any]:
    arrays, ranks = movements.arrays(), movements.effective_ranks()
    loops = list(range(1, arrays["absolute"].shape[1] + 1))
    return {
        "norm": {"loop": [0, *loops], **_intervals(arrays, ("raw", "stream"), settings)},
        "change": {"loop": loops, **_intervals(arrays, ("absolute", "relative"), settings)},
        "cosines": {"loop": loops[:near], **_cosines(arrays["cosines"], settings)},
        "effective_rank": {
            "loop": [0, *loops[:near]],
            "value": [None if np.isnan(rank) else rank for rank in ranks],
        },
    }


def _cosines(values: NDArray[Any], settings: DynamicsSettings) -> dict[str, Any]:
    """The matrix with its intervals, row by row, and means of it: of increments that follow each
    other, by the earlier one's loop, and of all pairs of different ones."""
    rows = [_interval(values[:, loop], settings) for loop in range(values.shape[1])]
    near = values.shape[1]
    apart = values[:, ~np.eye(near, dtype=bool)]
    # Pairs of which one has come to rest have no angle; they are those of late loops.
    known = ~np.isnan(apart).any(0)
    return {
        **{part: [row[part] for row in rows] for part in ("mean", "low", "high")},
        "consecutive": _interval(np.diagonal(values, 1, axis1=1, axis2=2), settings),
        "pairs": _interval(apart[:, known].mean(1, keepdims=True), settings)
        if known.any()
        else None,
    }


def _contraction(
    norms: tuple[Estimate, ...], radii: tuple[Estimate, ...], settings: DynamicsSettings
) -> dict[str, Any]:
    """Both factors with the most that either still changed at the end of its iteration, and the
    share of prompts whose spectral radius is below 1."""
    result: dict[str, Any] = {}
    for name, parts in (("spectral_norm", norms), ("spectral_radius", radii)):
        values = np.concatenate([part.values.cpu().numpy() for part in parts])
        result[name] = {
            **_interval(values[:, None], settings),
            "by_prompt": values.tolist(),
            "remaining_change": max(float(part.change.max()) for part in parts),
            "iterations": max(part.iterations for part in parts),
        }
    below = np.array(result["spectral_radius"]["by_prompt"]) < 1
    return result | {"below_one": _interval(below[:, None].astype(np.float64), settings)}


def _intervals(
    arrays: Arrays, names: tuple[str, ...], settings: DynamicsSettings
) -> dict[str, dict[str, list[float | None]]]:
    return {name: _interval(arrays[name], settings) for name in names}


def _interval(values: NDArray[Any], settings: DynamicsSettings) -> dict[str, list[float | None]]:
    return bootstrap(values, _RESAMPLES, settings.seed).to_json()


def _prepared(run: Run, device: str) -> Model:
    """The run's model, made float64, where it is to compute."""
    placement = place(device, "fp32", "eager")
    if placement.device.type == "mps":
        raise ConfigError(
            "device", "cannot be mps: it has no float64, in which states are followed"
        )
    return placement.prepare(run.model.requires_grad_(False).double())


def _on(model: Model, prompts: Prompts) -> Prompts:
    """The prompts where the model is, in its precision."""
    weight = model.read_in.weight

    def moved(part: Tensor) -> Tensor:
        return part.to(weight.device, weight.dtype)

    return Prompts(moved(prompts.xs), moved(prompts.ys))


def _batch_size(prompts: Prompts, near: int, n_embd: int) -> int:
    """As many prompts at once as their increments' bytes allow."""
    each = near * 2 * prompts.xs.shape[1] * n_embd * torch.float64.itemsize
    return max(1, min(_BATCH, _BATCH_BYTES // each))


def _drawn(result: dict[str, Any], run: Run) -> bool:
    return all((run.path / "probing" / name).exists() for name in figure_names(result))
