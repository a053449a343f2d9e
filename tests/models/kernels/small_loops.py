"""Small models for the kernels, and what a training step gets out of them."""

from typing import Any

import torch
from torch import Tensor

from looplab.models import Model
from looplab.models.kernels.segment import run_segment
from tests.models.small import Batch, draw_prompts, make_model

Results = dict[str, Tensor]

# Products of about size 1 in a model 32 wide. In one that magnifies what it reads, one rounding in
# the first loop can outweigh all others, and whose is larger, the kernels' or PyTorch's, is chance.
SPREAD = 0.15


def make_pair(device: torch.device, dtype: torch.dtype | None, **changes: Any) -> tuple[Model, ...]:
    """The same model twice, 32 wide: on kernels and eager; `dtype` of products."""
    pair = tuple(
        make_model(spread=SPREAD, **({"n_embd": 32} | changes)).to(device) for _ in range(2)
    )
    for model in pair:
        model.compute_dtype = dtype
    pair[0].run_segment = run_segment
    return pair


def prompts_for(model: Model) -> Batch:
    """Prompts of four points, of the model's device and dtype; on a GPU more of them."""
    weight = model.read_in.weight
    return Batch(*(part.to(weight) for part in draw_prompts(64 if weight.is_cuda else 2, 4)))


def step(
    model: Model, loops: int, window: int, grad_loops: int, only: int | None = None
) -> Results:
    """Predictions, and all gradients of a sum of theirs (of one loop's, where `only` says which),
    each prediction weighted differently."""
    model.zero_grad()
    predictions = model(prompts_for(model), loops, window, grad_loops=grad_loops)
    generator = torch.Generator().manual_seed(7)
    weights = torch.randn(predictions.shape, generator=generator).to(predictions)
    weighted = predictions * weights
    (weighted if only is None else weighted[only]).sum().backward()
    return {"predictions": predictions.detach()} | gradients(model)


def gradients(model: Model) -> Results:
    """Copies of all that there are."""
    named = model.named_parameters()
    return {name: p.grad.clone() for name, p in named if p.grad is not None}
