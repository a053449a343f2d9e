"""Measure the dynamics of a run and write them into its folder: dynamics.json, probing/dynamics/.

result = dynamics(DynamicsSettings("runs/NAME", loops=200))
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator

from looplab.conf.mistakes import ConfigError
from looplab.evaluation import load_run
from looplab.evaluation.bootstrap import Band, bootstrap, plain
from looplab.evaluation.drawing import save_panels
from looplab.evaluation.errors import evaluation_prompts
from looplab.evaluation.kept import kept, shown
from looplab.evaluation.measure import weights_digest
from looplab.evaluation.remarks import remarks
from looplab.evaluation.style import kind_of
from looplab.models import Model
from looplab.tasks import Prompts
from looplab.training.assemble import trained_loops
from looplab.training.device import place_exactly
from looplab.training.progress import Progress
from looplab.training.run_folder.run import Run, RunError, RunFolder
from looplab.training.run_folder.sources import EVALUATED, sources_of

from ..results import Dynamics, title
from ..settings import DynamicsSettings
from .jacobian import MAX_ITERATIONS, Estimate, spectral_norm, spectral_radius
from .report import panels
from .trajectory import Movements, follow, prompts_on

FIGURES = "probing/dynamics"  # in the run folder
FORMAT = 4  # of dynamics.json; a result of another format is measured again
KIND = "dynamics"
_WINDOW = 3  # times b: the loops whose increments are all compared
_BATCH = 16  # prompts at once, and fewer if their stored vectors take more than
_BATCH_BYTES = 2**28
_RESAMPLES = 1000  # of the bootstrap
_CONVERGED = 1e-6  # of the state's norm: a smaller fixed-point residual


def dynamics(settings: DynamicsSettings) -> Dynamics:
    """The dynamics of the states of a run's newest checkpoint, loop by loop, as plain values.

    Every result is stored in the run folder, and read from there for the same weights, settings and
    code; dynamics.json and the pictures show the last one requested. Raises ConfigError for
    settings that do not suit this run, RunError for a run without an undamaged checkpoint, with
    states that are not finite, or that another process is measuring.
    """
    settings.check()
    placement = place_exactly(settings.device)
    if placement.device.type == "mps":
        problem = "cannot be mps: it has no float64, in which states are followed"
        raise ConfigError("device", problem)
    run = load_run(settings.run)
    loops = settings.loops_of(run.config)
    request = {
        "format": FORMAT,
        "step": run.step,
        "weights": weights_digest(run.model),
        "settings": {"loops": loops, "prompts": settings.prompts, "seed": settings.seed},
        **({"data": data} if (data := run.task.data_identity()) else {}),
        "sources": sources_of(*EVALUATED, "probing", plugins=[type(run.task).__module__]),
    }

    def compute() -> tuple[dict[str, object], None]:
        # In float64: far beyond b increments are smaller than float32's rounding.
        model = placement.prepare(run.model.requires_grad_(False).double())
        with RunFolder(run.path).lock(KIND):
            return _measured(run, model, settings, loops), None

    folder = run.path / FIGURES
    result: Dynamics = kept(folder / "kept", KIND, request, compute)
    result["remarks"] = remarks(run)

    def make() -> list[Path]:
        above = title(result, settings.prompts)
        return save_panels(folder, panels(result), settings.figures, above, result["remarks"])

    shown(run.path / "dynamics.json", KIND, {**result, "figures": settings.figures.plain()}, make)
    return result


def _measured(run: Run, model: Model, settings: DynamicsSettings, loops: int) -> dict[str, object]:
    b, config = trained_loops(run.config), run.config
    prompts = evaluation_prompts(run.task, settings.prompts, config.task.points, settings.seed)
    window = min(loops, _WINDOW * b)
    movements, factors = Movements(window), list[tuple[Estimate, Estimate]]()
    generator = Generator().manual_seed(settings.seed)
    size = _batch_size(prompts, window, config.model.n_embd)
    with Progress(len(prompts), "dynamics", "prompt") as progress:
        for first in range(0, len(prompts), size):
            batch = prompts_on(model, prompts[first : first + size])
            trajectory = follow(model, batch, loops)
            last = movements.add(trajectory)
            if not bool(last.isfinite().all()):
                raise RunError(f"{run.path}: its states are not finite by loop {loops}")
            if trajectory.one_loop is not None:
                norm = spectral_norm(trajectory.one_loop, last, generator)
                factors.append((norm, spectral_radius(trajectory.one_loop, last, generator)))
            progress.update(len(batch))
    measured = summary(movements, settings.seed)
    if factors:
        norms, radii = zip(*factors, strict=True)
        measured["contraction"] = contraction(norms, radii, loops, settings.seed)
    return {
        "task": config.task.name,
        "family": config.model.family,
        "style": kind_of(config.model),
        "dims": config.task.dims,
        "b": b,
        "loops": loops,
        "prompts": settings.prompts,
        **measured,
    }


def _batch_size(prompts: Prompts, window: int, n_embd: int) -> int:
    """As many prompts at once as _BATCH_BYTES allow: the increments of each, or the vectors of the
    power iteration, are stored."""
    state = 2 * prompts.xs.shape[1] * n_embd * torch.float64.itemsize
    return max(1, min(_BATCH, _BATCH_BYTES // (max(window, MAX_ITERATIONS) * state)))


def summary(movements: Movements, seed: int) -> dict[str, Any]:
    """All but the Jacobian's factors: each part with its loops (or layers). The seed is that of the
    resamples."""
    arrays, ranks = movements.arrays(), movements.effective_ranks()
    loops = list(range(1, arrays["absolute"].shape[1] + 1))
    near = loops[: arrays["cosines"].shape[1]]

    def part(loops: list[int], **names: str) -> dict[str, Any]:
        bands = {name: _interval(arrays[array], seed) for name, array in names.items()}
        return {"loop": loops, **bands}

    result = {
        "norm": part([0, *loops], raw="raw", stream="stream"),
        "change": part(loops, absolute="absolute", relative="relative"),
        "cosines": _cosines(arrays["cosines"], near, seed),
        "effective_rank": {"loop": [0, *near], "value": plain(np.array(ranks))},
    }
    if "residual" in arrays:
        # Some prompts may converge and others not.
        relative = arrays["relative_residual"]
        low, median, high = map(plain, np.quantile(relative, (0.05, 0.5, 0.95), axis=0))
        result["residual"] = {
            **part(loops, absolute="residual", relative="relative_residual"),
            "over_prompts": {"median": median, "percentile_5": low, "percentile_95": high},
            "at_rest": {"below": _CONVERGED, **_share(relative[:, -1] < _CONVERGED, seed)},
        }
    return result


def contraction(
    norms: Sequence[Estimate], radii: Sequence[Estimate], loop: int, seed: int
) -> dict[str, Any]:
    """Both factors at this loop from all batches, with the largest change of each at the end of its
    iteration, and the share of prompts whose spectral radius is below 1."""

    def factor(batches: Sequence[Estimate]) -> dict[str, Any]:
        values = np.concatenate([batch.values.cpu().numpy() for batch in batches])
        return {
            **_interval(values[:, None], seed),
            "by_prompt": values.tolist(),
            "remaining_change": max(float(batch.change.max()) for batch in batches),
            "iterations": max(batch.iterations for batch in batches),
        }

    radius = factor(radii)
    below_one = _share(np.array(radius["by_prompt"]) < 1, seed)
    return {
        "loop": loop, "spectral_norm": factor(norms), "spectral_radius": radius,
        "below_one": below_one,
    }  # fmt: skip


def _cosines(values: NDArray[Any], loops: list[int], seed: int) -> dict[str, Any]:
    """The matrix with its intervals, row by row; the cosines of consecutive increments, by the
    earlier one's loop; and the mean over all pairs of different ones."""
    rows = [_interval(values[:, index], seed) for index in range(len(loops))]
    off_diagonal = values[:, ~np.eye(len(loops), dtype=bool)]
    # Pairs of which one increment is zero (late loops, once converged) have no cosine.
    valid = ~np.isnan(off_diagonal).any(0)
    return {
        "loop": loops,
        **{name: [dict(row)[name] for row in rows] for name in ("mean", "low", "high")},
        "consecutive": _interval(np.diagonal(values, 1, axis1=1, axis2=2), seed),
        "pairs": _interval(off_diagonal[:, valid].mean(1, keepdims=True), seed)
        if valid.any()
        else None,
    }


def _share(condition: NDArray[np.bool_], seed: int) -> Band:
    return _interval(condition[:, None].astype(np.float64), seed)


def _interval(values: NDArray[Any], seed: int) -> Band:
    return bootstrap(values, _RESAMPLES, seed).to_json()
