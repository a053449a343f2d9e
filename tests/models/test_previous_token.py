"""A previous-token head set by hand attends to the token before from the first loop on."""

from typing import Any

import pytest
import torch

from looplab.models import Model, ModelSpec
from looplab.probing.attention import recorded_shares
from tests.models.small import draw_prompts


@pytest.mark.parametrize(
    "shape", [{"n_head": 4}, {"n_head": 2}, {"n_embd": 64, "n_head": 4}, {"family": "standard"}]
)
def test_the_first_head_attends_to_the_token_before(shape: dict[str, Any]) -> None:
    standard = {"injection": "none"} if "family" in shape else {"injection": "add"}
    spec = {"dims": 3, "n_embd": 32, "n_head": 4, "n_positions": 8, "std": 0.1} | standard | shape
    model = Model(ModelSpec(**spec, previous_token_head=True))
    with recorded_shares(model) as shares:
        list(model.unroll(draw_prompts(batch=32, points=8), 1))
    first, *others = torch.stack(shares)[0].mean(-1)
    assert first > 0.7
    assert max(others) < 0.3
