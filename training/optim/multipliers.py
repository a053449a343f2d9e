"""Factors of rates and Adam's epsilon under factored residual scaling (arXiv 2606.18524, Tables 1
and 3).

They are CompleteP's rules at α = 1/2 for U / 12 times the depth that the settings were tuned at:
U = model.n_layer unique layers, for any number of loops. Weight decay has no such factor.
"""

from __future__ import annotations

import math

from reloop.conf.schema import ModelConfig
from reloop.models.blocks.parameters import Role

_BASE_LAYERS = 12  # unique layers at which every multiplier is 1


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
