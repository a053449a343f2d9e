"""Measure the dynamics of a run and write them into its folder: dynamics.json, probing/dynamics/.

result = dynamics(DynamicsSettings("runs/NAME", loops=200))
"""

from __future__ import annotations

import torch
from torch import Generator

from reloop.conf.mistakes import ConfigError
from reloop.evaluation import load_run
from reloop.evaluation.artefacts import Artefacts, is_shown, show
from reloop.evaluation.errors import evaluation_prompts
from reloop.evaluation.measure import weights_digest
from reloop.evaluation.remarks import remarks
from reloop.evaluation.style import kind_of
from reloop.models import Model
from reloop.tasks import Prompts
from reloop.training.assemble import trained_loops
from reloop.training.device import Placement, place_exactly
from reloop.training.progress import Progress
from reloop.training.run_folder.run import Run, RunError, RunFolder
from reloop.training.run_folder.sources import EVALUATED, sources_of

from .figures import draw_dynamics
from .jacobian import MAX_ITERATIONS, Estimate, spectral_norm, spectral_radius
from .results import Dynamics, Header
from .settings import DynamicsSettings
from .summary import contraction, summary
from .trajectory import Movements, follow, prompts_on

FIGURES = "probing/dynamics"  # in the run folder
_FORMAT = 3  # of dynamics.json; a result of another format is measured again
_WINDOW = 3  # times b: the loops whose increments are all compared
_BATCH = 16  # prompts at once, and fewer if their stored vectors take more than
_BATCH_BYTES = 2**28


def dynamics(settings: DynamicsSettings) -> Dynamics:
    """The dynamics of the states of a run's newest checkpoint, loop by loop, as plain values.

    Every result is stored in the run folder, and read from there for the same weights, settings and
    code; dynamics.json and the pictures show the last one requested. Raises ConfigError for
    settings that do not suit this run, RunError for a run without an undamaged checkpoint, with
    states that are not finite, or that another process is measuring.
    """
    settings.check()
    placement = _placement(settings.device)
    run = load_run(settings.run)
    loops = settings.loops_of(run.config)
    request = {
        "format": _FORMAT,
        "step": run.step,
        "weights": weights_digest(run.model),
        "settings": {"loops": loops, "prompts": settings.prompts, "seed": settings.seed},
        **({"data": data} if (data := run.task.data_identity()) else {}),
        "sources": sources_of(*EVALUATED, "probing", plugins=[type(run.task).__module__]),
    }
    artefacts = Artefacts(run.path / FIGURES / "kept", "dynamics")
    result: Dynamics | None = artefacts.find(request)
    if result is None:
        # In float64: far beyond b increments are smaller than float32's rounding.
        model = placement.prepare(run.model.requires_grad_(False).double())
        with RunFolder(run.path).lock("dynamics"):
            result = artefacts.keep(request, _measured(run, model, settings, loops))
    result["remarks"] = remarks(run)
    path = run.path / "dynamics.json"
    content = {**result, "figures": settings.figures.plain()}
    if not is_shown(path, "dynamics", content):
        path.unlink(missing_ok=True)  # it does not match the new pictures
        style = kind_of(run.config.model)
        files = draw_dynamics({**result, "style": style}, run.path / FIGURES, settings.figures)
        show(path, "dynamics", content, files)
    return result


def _measured(run: Run, model: Model, settings: DynamicsSettings, loops: int) -> Dynamics:
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
    header: Header = {
        "task": config.task.name,
        "family": config.model.family,
        "dims": config.task.dims,
        "b": b,
        "loops": loops,
        "prompts": settings.prompts,
    }
    return {**header, **measured}


def _placement(device: str) -> Placement:
    """The device, which must have float64."""
    placement = place_exactly(device)
    if placement.device.type == "mps":
        raise ConfigError(
            "device", "cannot be mps: it has no float64, in which states are followed"
        )
    return placement


def _batch_size(prompts: Prompts, window: int, n_embd: int) -> int:
    """As many prompts at once as _BATCH_BYTES allow: the increments of each, or the vectors of the
    power iteration, are stored."""
    state = 2 * prompts.xs.shape[1] * n_embd * torch.float64.itemsize
    return max(1, min(_BATCH, _BATCH_BYTES // (max(window, MAX_ITERATIONS) * state)))
