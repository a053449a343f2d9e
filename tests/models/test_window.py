"""The window of loops in the loss, and how far back its gradients reach."""

import pytest
import torch
from torch import Tensor

from looplab.models import Model
from tests.models.small import FAMILIES, as_double, draw_prompts, make_model


def gradients_of(
    model: Model, loops: int, window: int, grad_loops: int | None
) -> dict[str, Tensor]:
    """Those of a sum of all predictions, each weighted differently, so that mistakes in the order
    of loops, prompts or points do not cancel."""
    model.zero_grad()
    predictions = model(as_double(draw_prompts()), loops, window, grad_loops=grad_loops)
    generator = torch.Generator().manual_seed(7)
    (predictions * torch.randn(predictions.shape, generator=generator)).sum().backward()
    named = model.named_parameters()
    return {n: torch.zeros_like(p) if p.grad is None else p.grad.clone() for n, p in named}


@pytest.mark.parametrize("family", FAMILIES)
def test_float32_agrees_with_float64_and_more_points_change_no_earlier_prediction(
    family: str,
) -> None:
    model, prompts = make_model(family).double(), draw_prompts()
    exact = model(as_double(prompts), 3)
    short = type(prompts)(prompts.xs[:, :4], prompts.ys[:, :4])
    torch.testing.assert_close(model(as_double(short), 3), exact[:, :, :4])
    torch.testing.assert_close(model.float()(prompts, 3), exact.float(), rtol=1e-4, atol=1e-4)


def test_a_loop_norms_its_output_and_tells_the_raw_one() -> None:
    """The state of a shared loop: what the next loop reads, and the same before the norm."""
    model = make_model().double()
    for state, _ in list(model.unroll(as_double(draw_prompts()), 3))[1:]:
        torch.testing.assert_close(model.loop.norm(state.raw), state.stream)
        assert not torch.allclose(state.raw, state.stream)


def test_gradient_reaches_back_as_far_as_the_window_unless_told() -> None:
    model = make_model().double()
    default, window, further = (gradients_of(model, 5, 2, grad) for grad in (None, 2, 3))
    for name, gradient in default.items():
        assert torch.equal(gradient, window[name])
    name = "loop.blocks.0.qkv.weight"
    assert not torch.allclose(default[name], further[name])


def test_tied_gradients_flow_through_all_loops_to_the_read_in() -> None:
    """Without injection the read-in is met once, at the start: cut off, it gets no gradient."""
    model = make_model("tied").double()
    assert gradients_of(model, 4, 1, 4)["read_in.weight"].abs().min() > 0
    assert torch.all(gradients_of(model, 4, 1, 3)["read_in.weight"] == 0)


def test_the_cut_changes_no_prediction() -> None:
    """The window's are those of its loops, newest last; none has a gradient where none is
    wanted."""
    model, prompts = make_model(), draw_prompts()
    whole = model(prompts, 5, 5)
    for loops in range(1, 6):
        torch.testing.assert_close(whole[loops - 1], model(prompts, loops)[0])
    for grad_loops in (2, 3, 5):
        ours = model(prompts, 5, 2, grad_loops=grad_loops)
        torch.testing.assert_close(ours, whole[-2:])
    with torch.no_grad():
        assert not model(prompts, 5, 2).requires_grad
