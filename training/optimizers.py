"""Adam with its parameter groups, and the learning rate as a function of the step."""

from __future__ import annotations

import torch
from torch import nn
from torch.optim import AdamW

from conf.schema import TrainingConfig
from models import Model


def make_optimizer(model: Model, training: TrainingConfig) -> AdamW:
    """Adam whose rate is a tensor on the device, fit to be captured there; with weight decay it is
    AdamW's, on weights but not on biases, norms and positions."""
    roles = model.parameter_roles()
    groups: dict[bool, list[nn.Parameter]] = {True: [], False: []}
    for name, parameter in model.named_parameters():
        decays = roles[name].kind in ("matrix", "embedding", "read_out") and name.endswith("weight")
        groups[decays].append(parameter)
    device = next(model.parameters()).device
    optimizer = AdamW(
        [
            {"params": parameters, "weight_decay": training.weight_decay if decays else 0.0}
            for decays, parameters in groups.items()
        ],
        lr=torch.tensor(training.learning_rate, device=device),
        betas=(training.beta1, training.beta2),
        fused=True,
        capturable=device.type == "cuda",
    )
    # Else it warns of the steps before a capture.
    optimizer._warned_capturable_if_run_uncaptured = True
    return optimizer


def learning_rate(training: TrainingConfig, step: int) -> float:
    """Linear warm-up, then constant, then linear decay to zero over the last fraction `decay`."""
    rate = training.learning_rate
    if step < training.warmup:
        rate *= (step + 1) / training.warmup
    decay_steps = training.steps * training.decay
    if training.steps - step < decay_steps:
        rate *= (training.steps - step) / decay_steps
    return rate
