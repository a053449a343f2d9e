"""Measure the dynamics of a run and keep them in its folder: dynamics.json, probing/dynamics/.

result = dynamics(DynamicsSettings("runs/NAME", loops=200))
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Generator, Tensor

from reloop.conf.mistakes import ConfigError
from reloop.evaluation import load_run
from reloop.evaluation.artefacts import Artefacts, is_shown, show
from reloop.evaluation.errors import evaluation_prompts
from reloop.evaluation.measure import weights_digest
from reloop.evaluation.remarks import remarks
from reloop.models import Model
from reloop.tasks import Prompts
from reloop.training.assemble import trained_loops
from reloop.training.device import Placement, place_exactly
from reloop.training.progress import Progress
from reloop.training.run_folder.run import Run, RunError, RunFolder
from reloop.training.run_folder.sources import sources_of

from .figures import draw_dynamics, figure_names
from .jacobian import MOST_ITERATIONS, Estimate, spectral_norm, spectral_radius
from .settings import DynamicsSettings
from .summary import contraction, summary
from .trajectory import Movements, follow

FIGURES = "probing/dynamics"  # in the run folder
_FORMAT = 3  # of dynamics.json; another one is measured anew
_OURS = (
    "reloop.probing.dynamics.summary",
    "reloop.probing.dynamics.jacobian",
    "reloop.probing.dynamics.trajectory",
)
_NEAR = 3  # times b: how far the angles between all pairs of increments go
_BATCH = 16  # prompts at once, and fewer where what is kept of them would take
_BATCH_BYTES = 2**28  # more than this


def dynamics(settings: DynamicsSettings) -> dict[str, Any]:
    """What the states of a run's newest checkpoint do, loop by loop, as plain values.

    Every result is kept in the run folder, and read from there for the same weights, settings and
    code; dynamics.json and the pictures are of the one that was asked for last. Raises ConfigError
    for what cannot be measured of this run, RunError for a run without a good checkpoint, whose
    states are not finite, or where another process measures it.
    """
    settings.check()
    placement = _placement(settings.device)
    run = load_run(settings.run)
    loops = settings.loops_of(run.config)
    asked = {
        "format": _FORMAT,
        "step": run.step,
        "weights": weights_digest(run.model),
        "settings": {"loops": loops, "prompts": settings.prompts, "seed": settings.seed},
        "sources": sources_of("reloop.models.model", type(run.task).__module__, alone=_OURS),
    }
    kept = Artefacts(run.path / FIGURES / "kept", "dynamics")
    result = kept.find(asked)
    if result is None:
        # In float64: far beyond b increments are smaller than float32's rounding.
        model = placement.prepare(run.model.requires_grad_(False).double())
        with RunFolder(run.path).lock("dynamics"):
            result = kept.keep(asked, _measured(run, model, settings, loops))
    result |= {"remarks": remarks(run)}
    path, figures = run.path / "dynamics.json", run.path / FIGURES
    if not is_shown(path, "dynamics", result):
        path.unlink(missing_ok=True)  # whose pictures these are not
        draw_dynamics(result, figures)
        pictures = [figures / name for name in figure_names(result)]
        files = [path.with_suffix(kind) for path in pictures for kind in (".png", ".csv")]
        show(path, "dynamics", result, files)
    return result


def _measured(run: Run, model: Model, settings: DynamicsSettings, loops: int) -> dict[str, Any]:
    b, config = trained_loops(run.config), run.config
    prompts = evaluation_prompts(run.task, settings.prompts, config.task.points, settings.seed)
    near = min(loops, _NEAR * b)
    movements, factors = Movements(near), list[tuple[Estimate, Estimate]]()
    generator = Generator().manual_seed(settings.seed)
    size = _batch_size(prompts, near, config.model.n_embd)
    with Progress(len(prompts), "dynamics", "prompt") as progress:
        for first in range(0, len(prompts), size):
            batch = _on(model, prompts[first : first + size])
            trajectory = follow(model, batch, loops)
            last = movements.add(trajectory)
            if not bool(last.isfinite().all()):
                raise RunError(f"{run.path}: its states are not finite by loop {loops}")
            if trajectory.one_loop is not None:
                norm = spectral_norm(trajectory.one_loop, last, generator)
                factors.append((norm, spectral_radius(trajectory.one_loop, last, generator)))
            progress.update(len(batch))
    result: dict[str, Any] = {
        "task": config.task.name,
        "family": config.model.family,
        "dims": config.task.dims,
        "b": b,
        "loops": loops,
        "prompts": settings.prompts,
        **summary(movements, settings.seed),
    }
    if factors:
        norms, radii = zip(*factors, strict=True)
        result["contraction"] = contraction(norms, radii, loops, settings.seed)
    return result


def _placement(device: str) -> Placement:
    """Where states are followed."""
    placement = place_exactly(device)
    if placement.device.type == "mps":
        raise ConfigError(
            "device", "cannot be mps: it has no float64, in which states are followed"
        )
    return placement


def _on(model: Model, prompts: Prompts) -> Prompts:
    """The prompts where the model is, in its precision."""
    weight = model.read_in.weight

    def moved(part: Tensor) -> Tensor:
        return part.to(weight.device, weight.dtype)

    return Prompts(moved(prompts.xs), moved(prompts.ys))


def _batch_size(prompts: Prompts, near: int, n_embd: int) -> int:
    """As many prompts at once as the bytes of what is kept of them allow: increments, or the
    vectors of an iteration."""
    state = 2 * prompts.xs.shape[1] * n_embd * torch.float64.itemsize
    return max(1, min(_BATCH, _BATCH_BYTES // (max(near, MOST_ITERATIONS) * state)))
