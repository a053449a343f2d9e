"""The reference codes' state dicts as ours: the same predictions, the shape, clear refusals."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from looplab.models import Model, ModelSpec
from looplab.models.reference import Reference, read_reference
from tests.models.reference_codes import HEADS, garg_weights, leiay_weights, predict
from tests.models.small import DIMS, draw_prompts

Weights = dict[str, Tensor]


def model_of(reference: Reference, family: Any = "standard", injection: Any = "none") -> Model:
    """Our model with a reference's shape and weights."""
    spec = ModelSpec(
        dims=reference.dims,
        family=family,
        n_layer=reference.n_layer,
        n_embd=reference.n_embd,
        n_head=HEADS,
        n_positions=reference.n_positions,
        injection=injection,
        classes=reference.classes,
    )
    model = Model(spec)
    model.load_state_dict(dict(reference.weights))
    return model


@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize(
    ("family", "injection", "n_layer"),
    [("looped", "add", 2), ("looped", "multiply", 1), ("tied", "none", 1), ("standard", "none", 3)],
)
def test_leiay_s_models_predict_the_same(
    family: str, injection: str, n_layer: int, outputs: int
) -> None:
    """Classifiers have the same logits."""
    weights, prompts = leiay_weights(n_layer, outputs=outputs), draw_prompts(points=8)
    found = read_reference(weights)
    assert (found.code, found.n_layer) == ("Leiay/looped_transformer", n_layer)
    assert (found.dims, found.n_embd, found.n_positions) == (DIMS, 16, 8)
    loops, steps = (1, n_layer) if family == "standard" else (5, 5)
    ours = model_of(found, family, injection)(prompts, loops=steps, window=1, grad_loops=steps)[0]
    theirs = predict(weights, prompts, loops, injection)
    assert theirs.std() > 0.1
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-5)


def test_garg_s_model_predicts_the_same_up_to_its_last_position() -> None:
    weights, prompts = garg_weights(n_layer=3), draw_prompts(points=8)
    found = read_reference(weights)
    assert (found.code, found.n_layer) == ("dtsip/in-context-learning", 3)
    model = model_of(found)
    with torch.no_grad():
        model.get_parameter("loop.positions")[-1] = math.nan  # the row that theirs does not have
    theirs = predict(weights, prompts, loops=1)
    ours = model(prompts, loops=3, window=1, grad_loops=3)[0]
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-5)
    *_, (_, unrolled) = model.unroll(prompts, 3)
    torch.testing.assert_close(unrolled, theirs, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("weights", "problem"),
    [
        ({"backbone.weight": torch.ones(2)}, "neither"),
        (leiay_weights() | {"_read_in.weight": torch.ones(16)}, "expected a matrix"),
        (garg_weights() | {"_read_out.weight": torch.ones(2, 16)}, "reads out 2"),
        (leiay_weights() | {"_backbone.transformer.wpe.weight": torch.ones(16, 16)}, "has 16"),
        (garg_weights() | {"_backbone.wpe.weight": torch.ones(17, 16)}, "has 17"),
        (leiay_weights() | {"_read_in.bias": torch.ones(16, dtype=torch.int64)}, "int64"),
    ],
)
def test_what_is_neither_code_s_is_refused(weights: Weights, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        read_reference(weights)
