"""What configurations say without a training: their parameters, the floating-point operations of a
step and of a prediction, and what new weights add to the stream."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from looplab.conf.schema import Config, EvaluationConfig
from looplab.evaluation.statistics import Estimate, NotMeasured
from looplab.models import Model
from looplab.show.panel import Curve, Panel
from looplab.tasks import Prompts
from looplab.training.assemble import build_curriculum, build_model, build_task, trained_loops
from looplab.training.optim.optimizers import multiplier
from looplab.training.run_folder.run import Run
from looplab.training.validation import evaluation_prompts

from .definition import configuration
from .evidence import Evidence, counted, farthest_from_one
from .flops import Flops, shapes_of

_PROMPTS = 16  # that a new model reads
_COUNTS = {
    "parameters": "parameters",
    "step": "FLOPs of the last step",
    "prediction": "FLOPs of a prediction",
}


def measure(
    runs: Sequence[Run],
    settings: EvaluationConfig,
    commands: Mapping[str, Mapping[str, Any]],
    untrained: Mapping[str, Mapping[str, Any]],
) -> dict[str, Any]:
    """Count what the configurations of some commands have; it needs no runs.

    `counts`, by the command's name: `parameters` and those of the `backbone` alone; FLOPs of the
    last `step` by this suite's count, of a `prediction` of one sequence by PyTorch's; `epsilon`,
    the factor of each branch; `rate`, that of the looped stack's learning rate and of AdamW's ε.
    `moved` is, of the `untrained` commands, how far a new model's stream is at most from what its
    loops start from, after any of them, over the length of that.
    """
    counts = {name: _counted(configuration(words)) for name, words in commands.items()}
    moved = {name: _moved(configuration(words)) for name, words in untrained.items()}
    return {"counts": counts, "moved": moved}


def panels(found: Mapping[str, Any]) -> list[Panel]:
    """Each count as bars, one for each command."""
    counts = found["counts"]
    names = [*counts]
    drawn = []
    for name, label in _COUNTS.items():
        bars = Curve(label=label, kind="looped", mean=[counts[each][name] for each in names])
        axes = ("configuration", label, range(len(names)))
        drawn.append(
            Panel(f"counts-{name}", label, *axes, [bars], log="y", x_names=names, bars=True)
        )
    return drawn


def _counted(config: Config) -> dict[str, float]:
    """What is counted of a configuration; see `measure`."""
    model = shapes_of(config)
    curriculum = build_curriculum(config, build_task(config))
    last = curriculum(config.training.steps)
    rates = [
        multiplier(config.model, role)
        for role in model.parameter_roles().values()
        if role.layer is not None
    ]
    return {
        "parameters": sum(weights.numel() for weights in model.parameters()),
        "backbone": model.backbone_parameters(),
        "step": Flops(config, model, curriculum).of_stage(last),
        "prediction": _operations(config, model),
        "epsilon": model.residual_scale(),
        "rate": min(rates, default=1.0),
    }


def _operations(config: Config, model: Model) -> int:
    """The FLOPs of a prediction of one sequence, as PyTorch counts products and attention when it
    carries it out on shapes alone."""
    points = config.task.points
    xs = torch.zeros(1, points, config.task.dims, device="meta", dtype=torch.float32)
    ys = xs[..., 0]
    if config.task.is_text:
        xs = ys = torch.zeros(1, points, device="meta", dtype=torch.int64)
    with FlopCounterMode(display=False) as counter:
        model(Prompts(xs, ys), trained_loops(config), 1)
    return counter.get_total_flops()


@torch.no_grad()
def _moved(config: Config) -> float:
    """How far the stream of a new model is from its start at most; see `measure`."""
    task = build_task(config)
    prompts = evaluation_prompts(task, _PROMPTS, config.task.points, config.evaluation.seed)
    model = build_model(config, task)
    e = model.loop.prepare(model.read_in(model.reader.tokens(prompts, None)))
    start = model.loop.start(e).raw
    _, *states = [state for state, _ in model.unroll(prompts, trained_loops(config))]
    distances = [torch.linalg.vector_norm(state.raw - start) for state in states]
    return float(max(distances) / torch.linalg.vector_norm(start))


def count_ratio(evidence: Evidence, count: str, names: Sequence[str], over: str) -> Estimate:
    """A count of a configuration over that of another, of several configurations the ratio that is
    farthest from 1."""
    counts = _counts(evidence, count, [*names, over])
    return farthest_from_one([counted(counts[name] / counts[over], 0) for name in names])


def count_over_published(
    evidence: Evidence, count: str, published: Mapping[str, float]
) -> Estimate:
    """A count of each of these configurations over the published one, the ratio that is farthest
    from 1."""
    counts = _counts(evidence, count, [*published])
    return farthest_from_one(
        [counted(counts[name] / value, 0) for name, value in published.items()]
    )


def largest_move(evidence: Evidence) -> Estimate:
    """How far the stream of a new model is from its start at most."""
    moved = evidence.result("counts", "moved")
    return counted(max(moved.values()), 0)


def _counts(evidence: Evidence, count: str, names: Sequence[str]) -> dict[str, float]:
    """A count by the name of a configuration; NotMeasured for one that is not there."""
    counts = evidence.result("counts", "counts")
    if missing := [name for name in names if name not in counts]:
        raise NotMeasured(f"nothing was counted of {', '.join(missing)}")
    return {name: counts[name][count] for name in names}
