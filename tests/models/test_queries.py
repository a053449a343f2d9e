"""Many queries beside one context are each answered as if it stood in the prompt alone."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from looplab.models import Model, Queries
from tests.models.small import WAYS, Batch, as_double, draw_prompts, make_model

POINTS = 6
CASES: dict[str, dict[str, Any]] = {
    "add, two layers": {"n_layer": 2},
    "multiply": {"injection": "multiply"},
    "tied": {"family": "tied"},
    "standard": {"family": "standard"},
    **WAYS,
}
SEEN = [4, 0, 2, POINTS, 2, 5, 1]  # not in order, two alike, none and all of the pairs


@pytest.fixture(params=CASES)
def model(request: pytest.FixtureRequest) -> Model:
    """Each way to loop, in float64."""
    return make_model(**CASES[request.param]).double()


@pytest.fixture
def prompts() -> Batch:
    return as_double(draw_prompts(points=POINTS))


@pytest.fixture
def queries() -> Queries:
    """As many as SEEN, of inputs of their own."""
    xs = draw_prompts(points=len(SEEN), seed=5).xs.double()
    return Queries(xs, torch.tensor(SEEN))


def predict(model: Model, prompts: Batch, queries: Queries | None = None) -> Tensor:
    """Predictions after each of three loops or layers, [3, B, n or m]."""
    return torch.stack([y for _, y in model.unroll(prompts, 3, queries)][1:])


def asked_alone(model: Model, prompts: Batch, queries: Queries) -> Tensor:
    """What `predict` gives, from the plain model on one shortened prompt for each query."""
    answers = []
    for j, seen in enumerate(queries.seen.tolist()):
        xs = torch.cat((prompts.xs[:, :seen], queries.xs[:, j, None]), dim=1)
        ys = torch.cat((prompts.ys[:, :seen], prompts.ys.new_zeros(len(xs), 1)), dim=1)
        answers.append(predict(model, Batch(xs, ys))[:, :, seen])
    return torch.stack(answers, dim=2)


def outcome(
    model: Model, queries: Queries | None, prompts: Batch, *counts: int
) -> dict[str, Tensor]:
    """Predictions of a window and the gradients of a sum of theirs, each weighted differently."""
    loops, window, grad_loops = counts
    model.zero_grad()
    predictions = model(prompts, loops, window, grad_loops=grad_loops, queries=queries)
    draws = torch.Generator().manual_seed(7)
    weights = torch.randn(window, 3, POINTS, generator=draws, dtype=torch.float64)
    (predictions * weights).sum().backward()
    gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    return {"predictions": predictions.detach()} | gradients


def test_a_prompt_s_own_inputs_are_answered_as_in_it(model: Model, prompts: Batch) -> None:
    """All loops of the window, and all gradients."""
    window = 1 if model.spec.family == "standard" else 2
    counts = (3, window, window)
    own = Queries(prompts.xs, torch.arange(POINTS))
    ours, plain = outcome(model, own, prompts, *counts), outcome(model, None, prompts, *counts)
    assert ours.keys() == plain.keys()
    last = f"loop.blocks.{model.spec.n_layer - 1}."
    assert {name for name, _ in model.named_parameters() if name.startswith(last)} <= plain.keys()
    for name, expected in plain.items():
        torch.testing.assert_close(ours[name], expected, rtol=1e-9, atol=1e-10, msg=name)


def test_each_query_is_answered_as_alone(model: Model, prompts: Batch, queries: Queries) -> None:
    """Unrolled and in the forward pass; a later pair does not matter, to the bit."""
    alone, before = asked_alone(model, prompts, queries), predict(model, prompts, queries)
    torch.testing.assert_close(before, alone)
    window = 1 if model.spec.family == "standard" else 3
    passed = model(prompts, 3, window, grad_loops=3, queries=queries)
    torch.testing.assert_close(passed, alone[-window:])
    altered = Batch(prompts.xs.clone(), prompts.ys.clone())
    altered.xs[:, 2] += 1
    altered.ys[:, 2] += 1
    after, later = predict(model, altered, queries), queries.seen > 2
    assert torch.equal(before[..., ~later], after[..., ~later])
    assert torch.all(before[..., later] != after[..., later])


@pytest.mark.parametrize("name", ["multiply", "standard", "lanes"])
def test_the_state_is_the_prompt_s_and_then_the_queries(name: str, prompts: Batch) -> None:
    """Also at index 0, the read-in. The prompt's tokens do not know of the queries."""
    model = make_model(**CASES[name]).double()
    seen = torch.tensor([3, 1])
    own = Queries(prompts.xs[:, seen], seen)
    steps = zip(model.unroll(prompts, 3, own), model.unroll(prompts, 3), strict=True)
    for (ours, answers), (plain, predictions) in steps:
        torch.testing.assert_close(answers, predictions[:, seen])
        for actual, expected in zip(ours[:2], plain[:2], strict=True):
            tokens = torch.cat((expected, expected[:, 2 * seen]), dim=1)
            torch.testing.assert_close(actual, tokens)


@pytest.mark.parametrize("name", ["multiply", "standard", "FLT"])
def test_all_pairs_can_be_seen_where_the_prompt_fills_the_positions(name: str) -> None:
    """The table's last row is the place of a query after the last pair."""
    model = make_model(**CASES[name]).double()
    larger = Model(replace(model.spec, n_positions=9)).double()
    weights = model.state_dict()
    rows = weights["loop.positions"]
    weights["loop.positions"] = torch.cat((rows, rows.new_zeros(2, rows.shape[1])))
    larger.load_state_dict(weights)
    prompts = as_double(draw_prompts(points=8))
    query = Queries(draw_prompts(points=1, seed=5).xs.double(), torch.tensor([8]))
    torch.testing.assert_close(predict(model, prompts, query), asked_alone(larger, prompts, query))


@pytest.mark.parametrize("seen", [[0, 7], [-1, 2]])
def test_queries_that_do_not_fit_are_refused(prompts: Batch, seen: list[int]) -> None:
    queries = Queries(torch.zeros(3, 2, 3, dtype=torch.float64), torch.tensor(seen))
    with pytest.raises(ValueError, match="queries can have seen 0 to 6 pairs"):
        make_model().double()(prompts, 2, queries=queries)
