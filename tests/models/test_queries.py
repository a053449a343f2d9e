"""Many queries beside one context are each answered as if it stood in the prompt alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from looplab.models import Model, Queries
from tests.models.small import WAYS, Batch, as_double, draw_prompts, make_model

POINTS = 6
CASES: dict[str, dict[str, Any]] = {
    "add": {},
    "add, two layers": {"n_layer": 2},
    "multiply": {"injection": "multiply"},
    "multiply, two layers": {"injection": "multiply", "n_layer": 2},
    "tied": {"family": "tied"},
    "tied, two layers": {"family": "tied", "n_layer": 2},
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


@pytest.mark.parametrize("prefix", [False, True])
def test_a_prompt_s_own_inputs_are_answered_as_in_it(
    model: Model, prompts: Batch, prefix: bool
) -> None:
    """All loops of the window, and all gradients."""
    window = 1 if model.spec.family == "standard" else 2
    counts = (3, window, window if prefix else 3)
    own = Queries(prompts.xs, torch.arange(POINTS))
    ours, plain = outcome(model, own, prompts, *counts), outcome(model, None, prompts, *counts)
    assert ours.keys() == plain.keys()
    last = f"loop.blocks.{model.spec.n_layer - 1}."
    assert {name for name, _ in model.named_parameters() if name.startswith(last)} <= plain.keys()
    for name, expected in plain.items():
        torch.testing.assert_close(ours[name], expected, rtol=1e-9, atol=1e-10, msg=name)


def test_each_query_is_answered_as_alone(model: Model, prompts: Batch, queries: Queries) -> None:
    torch.testing.assert_close(
        predict(model, prompts, queries), asked_alone(model, prompts, queries)
    )


def test_the_forward_pass_answers_as_the_unrolled(
    model: Model, prompts: Batch, queries: Queries
) -> None:
    window = 1 if model.spec.family == "standard" else 3
    predictions = model(prompts, 3, window, grad_loops=3, queries=queries)
    assert predictions.shape == (window, 3, len(SEEN))
    torch.testing.assert_close(predictions, predict(model, prompts, queries)[-window:])


def test_queries_do_not_see_each_other(model: Model, prompts: Batch, queries: Queries) -> None:
    altered = Queries(queries.xs.clone(), queries.seen)
    altered.xs[:, 2] = 100
    others = [j for j in range(len(SEEN)) if j != 2]
    before, after = predict(model, prompts, queries), predict(model, prompts, altered)
    assert torch.equal(before[..., others], after[..., others])
    assert torch.all(before[..., 2] != after[..., 2])


@pytest.mark.parametrize("part", ["xs", "ys"])
@pytest.mark.parametrize("j", [0, 2, POINTS - 1])
def test_a_query_has_seen_its_pairs_and_no_later_one(
    model: Model, prompts: Batch, queries: Queries, part: str, j: int
) -> None:
    altered = Batch(prompts.xs.clone(), prompts.ys.clone())
    getattr(altered, part)[:, j] += 1
    before, after = predict(model, prompts, queries), predict(model, altered, queries)
    later = queries.seen > j
    assert torch.equal(before[..., ~later], after[..., ~later])
    assert torch.all(before[..., later] != after[..., later])


def test_the_state_is_the_prompt_s_and_then_the_queries(model: Model, prompts: Batch) -> None:
    """Also at index 0, the read-in. The prompt's tokens do not know of the queries."""
    seen = torch.tensor([3, 1])
    own = Queries(prompts.xs[:, seen], seen)
    steps = zip(model.unroll(prompts, 3, own), model.unroll(prompts, 3), strict=True)
    for (ours, answers), (plain, predictions) in steps:
        torch.testing.assert_close(answers, predictions[:, seen])
        for actual, expected in zip(ours[:2], plain[:2], strict=True):
            tokens = torch.cat((expected, expected[:, 2 * seen]), dim=1)
            torch.testing.assert_close(actual, tokens)


def test_all_pairs_can_be_seen_where_the_prompt_fills_the_positions(model: Model) -> None:
    """The table's last row is the place of a query after the last pair."""
    larger = Model(replace(model.spec, n_positions=9)).double()
    weights = model.state_dict()
    if "loop.positions" in weights:
        rows = weights["loop.positions"]
        weights["loop.positions"] = torch.cat((rows, rows.new_zeros(2, rows.shape[1])))
    larger.load_state_dict(weights)
    prompts = as_double(draw_prompts(points=8))
    query = Queries(draw_prompts(points=1, seed=5).xs.double(), torch.tensor([8]))
    torch.testing.assert_close(predict(model, prompts, query), asked_alone(larger, prompts, query))


def test_the_last_step_ends_at_the_queries(prompts: Batch, queries: Queries) -> None:
    """Nothing reads the prompt's tokens any more once they have been attended to."""
    model, lengths = make_model().double(), list[int]()
    model.loop.get_submodule("blocks.0.contract").register_forward_hook(
        lambda _module, inputs, _output: lengths.append(inputs[0].shape[1])
    )
    model(prompts, 3, 2, queries=queries)
    assert lengths == [2 * POINTS + len(SEEN)] * 2 + [len(SEEN)]


def test_a_classifier_answers_with_logits(prompts: Batch, queries: Queries) -> None:
    model = make_model(classes=5).double()
    assert model(prompts, 3, 2, queries=queries).shape == (2, 3, len(SEEN), 5)


def test_bf16_answers_as_in_the_prompt() -> None:
    """And longer than the prompts that attention is made for by plain products."""
    model, prompts = Model(make_model(n_positions=30).spec), draw_prompts(points=30)
    model.compute_dtype = torch.bfloat16
    with torch.no_grad():
        plain = model(prompts, 3, 3)
        ours = model(prompts, 3, 3, queries=Queries(prompts.xs, torch.arange(30)))
    torch.testing.assert_close(ours, plain, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize(
    ("shape", "seen", "match"),
    [
        ((3, 2, 3), torch.tensor([0, 7]), "seen 0 to 6 pairs, got 0 to 7"),
        ((3, 2, 3), torch.tensor([-1, 2]), "seen 0 to 6 pairs, got -1 to 2"),
        ((3, 2, 3), torch.tensor([1.0, 2.0]), "seen as int64, got torch.float32"),
        ((3, 2, 3), torch.tensor([1, 2, 3]), r"xs \[3, 2, 3\] and seen \[3\]"),
        ((3, 2), torch.tensor([1, 2]), r"xs \[3, 2\] and seen \[2\]"),
        ((3, 2, 3), torch.tensor([[1, 2]] * 3), r"xs \[3, 2, 3\] and seen \[3, 2\]"),
        ((1, 2, 3), torch.tensor([1, 2]), "queries for 1 prompts, but there are 3"),
        ((3, 2, 4), torch.tensor([1, 2]), "queries of 4 dimensions for prompts of 3"),
    ],
)
def test_queries_that_do_not_fit_are_refused(
    prompts: Batch, shape: tuple[int, ...], seen: Tensor, match: str
) -> None:
    model = make_model().double()
    queries = Queries(torch.zeros(shape, dtype=torch.float64), seen)
    with pytest.raises(ValueError, match=match):
        model(prompts, 2, queries=queries)
    with pytest.raises(ValueError, match=match):
        next(model.unroll(prompts, 2, queries))
