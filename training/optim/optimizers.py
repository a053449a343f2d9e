"""Adam, AdamW, or Muon with AdamW beside it, with their groups of parameters.

optimizer = make_optimizer(model, config)
optimizer.prepare(step)
optimizer.step(bad)
"""

from __future__ import annotations

import math
import warnings
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.optim import Adam, AdamW

from looplab.conf.schema import Config, ModelConfig, TrainingConfig
from looplab.models import Model
from looplab.models.blocks.parameters import Role

from .muon import BlockMuon, MatrixMuon, SphereMuon

_DECAYING = ("matrix", "embedding", "injection", "read_out")
_ADAM = ("step", "exp_avg", "exp_avg_sq")
_BASE_LAYERS = 12  # unique layers at which every multiplier is 1


class Optimizer:
    """The optimiser of a model: Adam, and Muon for some parameters if configured.

    `param_groups` are those of both; each has its "lr", a tensor on the device, and the "peak" of
    its schedule.
    """

    def __init__(
        self, training: TrainingConfig, model: Model, adam: Adam, muon: MatrixMuon | None
    ) -> None:
        self.training, self.adam, self.muon = training, adam, muon
        self.names = {parameter: name for name, parameter in model.named_parameters()}
        self.param_groups = adam.param_groups + (muon.param_groups if muon else [])

    def prepare(self, step: int, factor: float = 1.0) -> None:
        """Set, in place, the host's values for step `step`: each group's rate (times `factor`) and
        Muon's momentum."""
        for group in self.param_groups:
            group["lr"].fill_(learning_rate(self.training, step, group["peak"]) * factor)
        if self.muon:
            self.muon.set_momentum(step)

    def step(self, bad: Tensor) -> None:
        """Update the weights; where `bad` [] is true, neither weights nor state change. Does not
        wait for the device."""
        # The fused Adam changes nothing where this flag is set, as for GradScaler.
        self.adam.found_inf = bad.float()  # type: ignore[attr-defined]
        self.adam.step()
        if self.muon:
            self.muon.step(bad)

    def state(self) -> dict[str, Tensor]:
        """All tensors that the next steps depend on, by names that begin with adam or muon."""
        tensors = {}
        for parameter, name in self.names.items():
            for key, tensor in self.adam.state.get(parameter, {}).items():
                tensors[f"adam.{key}.{name}"] = tensor
        for matrix in self.muon.matrices if self.muon else ():
            tensors[f"muon.momentum_buffer.{self.names[matrix.weight]}"] = matrix.buffer
        return tensors

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Load a copy of what `state` returned; KeyError where Muon's part is missing."""
        self.adam.state.clear()
        for parameter, name in self.names.items():
            for key in _ADAM:
                if (tensor := tensors.get(f"adam.{key}.{name}")) is not None:
                    # A copy: Adam writes into it, and the caller may load it again.
                    self.adam.state[parameter][key] = tensor.to(parameter.device, copy=True)
        for matrix in self.muon.matrices if self.muon else ():
            matrix.buffer.copy_(tensors[f"muon.momentum_buffer.{self.names[matrix.weight]}"])


def muon_kinds(training: TrainingConfig) -> tuple[str, ...]:
    """The kinds of parameters (`Role.kind`) that Muon has. MuonH has the injecting projection, too,
    as in the code of arXiv 2604.21106."""
    if training.optimizer != "muon":
        return ()
    return ("matrix", "injection") if training.muon_norm == "kept" else ("matrix",)


def make_optimizer(model: Model, config: Config) -> Optimizer:
    """The optimiser of `training.optimizer`, with its rates as tensors on the device, so that its
    steps can be captured.

    Weights decay, but not biases, norms and positions: decoupled from the gradient, or added to it
    for adam. With factored residual scaling, rates and epsilon have multipliers (multipliers.py).
    """
    training = config.training
    roles = model.parameter_roles()
    device = next(model.parameters()).device
    kinds = muon_kinds(training)
    # Keys: for Muon or not, without decay or with, the multiplier, and the rate before it.
    names_by_group: dict[tuple[bool, bool, float, float], list[str]] = defaultdict(list)
    for name, role in roles.items():
        on_muon = role.kind in kinds
        decays = role.kind in _DECAYING and name.endswith("weight")
        rate = training.muon_rate if on_muon else _adam_rate(training, name)
        names_by_group[on_muon, not decays, multiplier(config.model, role), rate].append(name)
    groups: dict[bool, list[dict[str, Any]]] = {False: [], True: []}
    for (on_muon, without_decay, factor, rate), names in sorted(names_by_group.items()):
        peak = rate * factor
        group: dict[str, Any] = {
            "params": [model.get_parameter(name) for name in names],
            "lr": torch.tensor(peak, device=device, dtype=torch.float32),
            "peak": peak,
            "weight_decay": 0.0 if without_decay else training.weight_decay,
        }
        if on_muon:
            group["parts"] = [roles[name].parts for name in names]
        else:
            group["eps"] = training.epsilon * factor
        groups[on_muon].append(group)
    kind = SphereMuon if training.muon_norm == "kept" else BlockMuon
    muon = kind(groups[True]) if groups[True] else None
    return Optimizer(training, model, _make_adam(groups[False], training, device), muon)


def _adam_rate(training: TrainingConfig, name: str) -> float:
    """Adam's rate of a parameter: that of a text's embedding or head, where it has its own."""
    own = {"read_in.weight": training.embedding_rate, "read_out.weight": training.head_rate}
    return own.get(name, 0.0) or training.learning_rate


def _make_adam(
    groups: list[dict[str, Any]], training: TrainingConfig, device: torch.device
) -> Adam:
    kind = Adam if training.optimizer == "adam" else AdamW
    capturable = device.type == "cuda"
    if capturable:  # its steps before a capture are no mistake
        warnings.filterwarnings("ignore", message=".*constructed with capturable=True")
    betas = (training.beta1, training.beta2)
    return kind(groups, betas=betas, fused=True, capturable=capturable)


def learning_rate(training: TrainingConfig, step: int, peak: float | None = None) -> float:
    """The rate of step `step`, counted from 0: linear warm-up to `peak` (none: learning_rate), then
    constant, then over the last fraction `decay` of the steps linear to `decay_to` of the peak.

    It reaches its end at the step after the last. Warm-up-stable-decay and the trapezoid are
    examples: 500 steps of warm-up, and to 0 over the last 1,000 of 20,000 (warmup=500,
    decay=0.05; arXiv 2606.18524); no warm-up, and to 0 over the last fifth (decay=0.2; arXiv
    2605.18797); over the whole run to a tenth (decay=1, decay_to=0.1; arXiv 2604.21106).
    """
    rate = training.learning_rate if peak is None else peak
    if step < training.warmup:
        rate *= (step + 1) / training.warmup
    decay_steps = training.steps * training.decay
    if training.steps - step < decay_steps:
        fraction = (training.steps - step) / decay_steps
        rate *= training.decay_to + (1 - training.decay_to) * fraction
    return rate


def multiplier(model: ModelConfig, role: Role) -> float:
    """The factor of a parameter's rate, and of its epsilon, since gradients shrink with the
    branches: sqrt(12 / U) in the looped stack (biases and norms included) where residual_scaling is
    factored, else 1."""
    if model.residual_scaling != "factored" or role.layer is None:
        return 1.0
    return math.sqrt(_BASE_LAYERS / model.n_layer)


def describe_groups(model: ModelConfig) -> str:
    """One line with the multipliers, empty where all of them are 1."""
    factor = multiplier(model, Role("matrix", (1,), layer=0))
    if factor == 1.0:
        return ""
    return (
        f"rates x {factor:.3g} and epsilon x {factor:.3g} in the looped stack "
        f"(the root of {_BASE_LAYERS} / {model.n_layer} layers)"
    )
