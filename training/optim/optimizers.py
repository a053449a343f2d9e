"""Adam, AdamW, or Muon with AdamW beside it, with their groups of parameters; and the moving
average of the weights.

optimizer = make_optimizer(model, config)
optimizer.prepare(step)
optimizer.step(bad)
"""

import math
import warnings
from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Adam, AdamW

from looplab.conf.schema import Config, ModelConfig, TrainingConfig
from looplab.models import Model
from looplab.models.blocks.parameters import Role
from looplab.models.private_torch import move_towards, skip_where

from .muon import Muon

_DECAYING = ("matrix", "embedding", "injection", "read_out")
_ADAM = ("step", "exp_avg", "exp_avg_sq")
_BASE_LAYERS = 12  # unique layers at which every multiplier is 1


class Optimizer:
    """The optimiser of a model: Adam, and Muon for some parameters if configured.

    `param_groups` are those of both; each has its "lr", a tensor on the device, and the "peak" of
    its schedule.
    """

    def __init__(
        self, training: TrainingConfig, model: Model, adam: Adam, muon: Muon | None
    ) -> None:
        self.training = training
        self.adam = adam
        self.muon = muon
        self.names = {parameter: name for name, parameter in model.named_parameters()}
        self.param_groups = adam.param_groups + (muon.param_groups if muon else [])

    def prepare(self, step: int) -> None:
        """Set, in place, the host's values for step `step`: each group's rate, and Muon's
        momentum."""
        for group in self.param_groups:
            # In place: a captured graph reads this very tensor.
            group["lr"].fill_(learning_rate(self.training, step, group["peak"]))
        if self.muon:
            self.muon.set_momentum(step)

    def step(self, bad: Tensor) -> None:
        """Update the weights; where `bad` [] is true, neither weights nor state change. Does not
        wait for the device."""
        skip_where(self.adam, bad)
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

    def keep(self, weights: Collection[Tensor]) -> None:
        """Drop the state of all other weights, which are not updated any more."""
        kept = set(weights)
        for group in self.adam.param_groups:
            group["params"] = [weight for weight in group["params"] if weight in kept]
        for weight in self.adam.state.keys() - kept:
            del self.adam.state[weight]
        if self.muon:
            self.muon.matrices = [matrix for matrix in self.muon.matrices if matrix.weight in kept]

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Load a copy of what `state` returned; KeyError where Muon's part is missing."""
        self.adam.state.clear()
        for parameter, name in self.names.items():
            for key in _ADAM:
                if (tensor := tensors.get(f"adam.{key}.{name}")) is not None:
                    # A copy: Adam writes into it, and the caller may load it again.
                    # Adam's state is a defaultdict, which makes the parameter's own dict here.
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
    for adam. With factored residual scaling, rates and epsilon have a `multiplier`.
    """
    training = config.training
    roles = model.parameter_roles()
    device = next(model.parameters()).device
    kinds = muon_kinds(training)
    # Of a text's embedding and head, where they have their own.
    own_rates = {"read_in.weight": training.embedding_rate, "read_out.weight": training.head_rate}
    # Keys: for Muon or not, without decay or with, the multiplier, and the rate before it.
    names_by_group: dict[tuple[bool, bool, float, float], list[str]] = defaultdict(list)
    for name, role in roles.items():
        on_muon = role.kind in kinds
        decays = role.kind in _DECAYING and name.endswith("weight")
        adam_rate = own_rates.get(name, 0.0) or training.learning_rate
        rate = training.muon_rate if on_muon else adam_rate
        names_by_group[on_muon, not decays, multiplier(config.model, role), rate].append(name)
    groups: dict[bool, list[dict[str, Any]]] = {False: [], True: []}
    for (on_muon, without_decay, factor, rate), names in sorted(names_by_group.items()):
        peak = rate * factor
        # AdamW multiplies the decay by the rate: over the peak, it is the setting itself there.
        decay = training.weight_decay / (peak if training.decay_by_rate else 1.0)
        group: dict[str, Any] = {"peak": peak, "weight_decay": 0.0 if without_decay else decay}
        group["params"] = [model.get_parameter(name) for name in names]
        group["lr"] = torch.tensor(peak, device=device, dtype=torch.float32)
        if on_muon:
            group["parts"] = [roles[name].parts for name in names]
        else:
            group["eps"] = training.epsilon * factor
        groups[on_muon].append(group)
    muon = Muon(groups[True], training.muon_norm == "kept") if groups[True] else None
    kind = Adam if training.optimizer == "adam" else AdamW
    betas = (training.beta1, training.beta2)
    on_gpu = device.type == "cuda"
    # Fused, since `skip_where` needs it: the other forms refuse `found_inf`.
    adam = kind(groups[False], betas=betas, fused=True, capturable=on_gpu)
    if on_gpu:  # its steps before a capture are no mistake
        warnings.filterwarnings("ignore", message=".*constructed with capturable=True")
    return Optimizer(training, model, adam, muon)


def learning_rate(training: TrainingConfig, step: int, rate: float) -> float:
    """The rate of step `step`, counted from 0: linear warm-up to the peak `rate`, then constant,
    then over the last fraction `decay` of the steps linear to `decay_to` of the peak.

    It reaches its end at the step after the last.
    """
    if step < training.warmup:
        # The first step has a rate above 0, the last of the warm-up the peak.
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


class WeightAverage:
    """average ← average + (1 - decay) (weights - average) after each step (Polyak & Juditsky 1992,
    in the form of Izmailov et al. 2018's successors): it has the noise of a decayed rate without a
    decay of the rate.

    The decay is at most n / (n + 9) after n steps, so that the initial weights are soon forgotten.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.names = [name for name, _ in model.named_parameters()]
        self.weights = list(model.parameters())
        self.averages = [weight.detach().float().clone() for weight in self.weights]

    @torch.no_grad()
    def update(self, number: Tensor, bad: Tensor) -> None:
        """Update the averages with the weights after step `number` [], counted from 1, unless `bad`
        []. Does not wait for the device."""
        # Until the decay caps it, the weights in the average are n / 10 steps old in the mean.
        rate = 1 - (number / (number + 9)).clamp(max=self.decay)
        rate = torch.where(bad, 0.0, rate).float()
        weights = [weight.detach().float() for weight in self.weights]
        move_towards(self.averages, weights, rate)

    @torch.no_grad()
    def copy_to_model(self) -> None:
        """Copy the averages to the model's weights."""
        for weight, average in zip(self.weights, self.averages, strict=True):
            weight.copy_(average)

    def state(self) -> dict[str, Tensor]:
        """The averages, by names that begin with `average.`."""
        named = zip(self.names, self.averages, strict=True)
        return {f"average.{name}": average for name, average in named}

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Load a copy of what `state` returned; KeyError for a missing name."""
        for name, average in zip(self.names, self.averages, strict=True):
            average.copy_(tensors[f"average.{name}"])
