"""What is looked at inside the loops: norms of the stream and of gradients, beside which nothing
else moves; the penalty on the loop's Jacobian, its estimate beside the exact one; and activation
checkpointing over loops: the same steps, of which less is stored."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.nn.utils import clip_grad_norm_

from looplab.conf.schema import Config, LoopsConfig, ModelConfig, TaskConfig, TrainingConfig
from looplab.models import Model, ModelSpec
from looplab.tasks import Prompts
from looplab.training import train
from looplab.training.assemble import build_model, build_task, step_generator
from looplab.training.inside_loops import GRADIENT_NORMS, JacobianGain, parts_of
from looplab.training.objective import loss
from looplab.training.step import Trainer
from tests.training.tiny import drawn, make_trainer, tiny

_SPEC = ModelSpec(dims=2, n_embd=8, n_head=2, n_positions=4, injection="add")
_TOKENS = 7  # of four points, without the last y


def _drawn(*size: int) -> Tensor:
    return torch.randn(*size, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


@pytest.fixture
def model() -> Model:
    model = Model(replace(_SPEC, position_std=0.5)).double()
    with torch.no_grad():
        for parameter in model.loop.parameters():
            parameter.mul_(3)
    return model


PROMPTS = Prompts(_drawn(3, 4, 2), _drawn(3, 4))


@pytest.mark.parametrize(("loops", "window"), [(5, 1), (5, 3), (3, 3)])
def test_gain_is_that_of_the_exact_jacobian(model: Model, loops: int, window: int) -> None:
    noise = _drawn(3, _TOKENS, 8)
    with JacobianGain(model, noise) as jacobian:
        model(PROMPTS, loops, window)
    tokens = torch.stack((PROMPTS.xs, torch.zeros_like(PROMPTS.xs)), 2).flatten(1, 2)
    tokens[:, 1::2, 0] = PROMPTS.ys
    e = model.loop.prepare(model.read_in(tokens[:, :-1]))
    state = model.loop.start(e)
    for t in range(loops - 1):
        state = model.loop.step(state, e, t)

    def step(stream: Tensor) -> Tensor:
        return model.loop.step(state._replace(stream=stream), e, loops - 1).stream

    before = state.stream.detach()
    matrix = torch.autograd.functional.jacobian(step, before)  # [B, S, E, B, S, E]
    moved = torch.einsum("bseatf,atf->bse", matrix, noise)
    expected = (moved.square().sum((1, 2)) / noise.square().sum((1, 2))).mean()
    assert float(jacobian.gain.detach()) == pytest.approx(float(expected), rel=0.02)


@pytest.mark.parametrize(
    ("settings", "loops", "window", "grad_loops"),
    [({}, 4, 1, 1), ({"injection": "multiply"}, 4, 2, 3), ({"injection": "none"}, 3, 3, 3)],
)
def test_predictions_do_not_change(
    settings: dict[str, Any], loops: int, window: int, grad_loops: int
) -> None:
    model = Model(replace(_SPEC, **settings)).double()
    expected = model(PROMPTS, loops, window, grad_loops=grad_loops)
    with JacobianGain(model, _drawn(3, _TOKENS, 8)):
        predictions = model(PROMPTS, loops, window, grad_loops=grad_loops)
    assert torch.equal(predictions, expected)
    assert torch.equal(model(PROMPTS, loops, window, grad_loops=grad_loops), expected)


def test_no_gradient_goes_through_the_state(model: Model) -> None:
    """It is the same however far the gradients of the predictions reach back."""
    found = []
    for grad_loops in (1, 3):
        with JacobianGain(model, _drawn(3, _TOKENS, 8)) as jacobian:
            model(PROMPTS, 3, 1, grad_loops=grad_loops)
        found.append(torch.autograd.grad(jacobian.gain, list(model.loop.blocks.parameters())))
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs)
        assert bool(ours.abs().sum() > 0)


def _gains(config: Config) -> list[float]:
    lines = (train(config).path / "metrics.jsonl").read_text("utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    return [record["jacobian_gain"] for record in records if "jacobian_gain" in record]


def test_a_penalty_lowers_the_gain_and_stands_beside_the_loss(tmp_path: Path) -> None:
    weak, strong = (
        _gains(tiny(tmp_path, jacobian_penalty=weight, steps=200)) for weight in (1e-9, 1.0)
    )
    assert strong[-1] < 0.7 * weak[-1]
    assert weak[0] > 0


UNNORMED = ModelConfig(
    n_embd=8, n_head=2, n_positions=4, injection="none", norm="at_readout",
    residual_scaling="linear",
)  # fmt: skip
CONNECTED = ModelConfig(
    n_layer=2, n_embd=8, n_head=2, n_positions=4, injection="none", block="flt",
    connectivity="FLT",
)  # fmt: skip


def config_of(model: ModelConfig, **training: Any) -> Config:
    return Config(
        task=TaskConfig("linear", dims=2, points=4),
        model=model,
        loops=LoopsConfig(b=3, T=3, grad_loops="all"),
        training=TrainingConfig(
            steps=6, batch_size=8, learning_rate=4e-3, log_norms=True, **training
        ),
    )


def by_hand(config: Config) -> list[dict[str, float]]:
    """The same training by PyTorch's own modules, optimiser and clipping, its stream looked at as
    the model unrolls."""
    task = build_task(config)
    model = build_model(config, task)
    adam = torch.optim.Adam(model.parameters(), lr=config.training.learning_rate)
    block: Any = model.loop.blocks[0]
    mlp = list(block.mlp.parameters()) if hasattr(block, "mlp") else []
    mlp = mlp or [*block.expand.parameters(), *block.contract.parameters()]
    found = []
    for step in range(config.training.steps):
        generator = step_generator(config.seed, step, 0, torch.device("cpu"))
        prompts = task.sample(generator, 8, config.task.points)
        norms = [state.raw[:, ::2].norm(dim=-1).mean() for state, _ in model.unroll(prompts, 3)]
        loss_ = loss("squared_error", model(prompts, 3, 3), prompts.ys)
        adam.zero_grad()
        loss_.backward()
        before = torch.cat([p.grad.flatten() for p in mlp]).norm()
        attention = getattr(block, "attention", None)
        parts = [attention] if attention is not None else [block.qkv, block.projection]
        first = [p for part in parts for p in part.parameters()]
        head: list[Any] = list(model.read_out.parameters())
        others = [torch.cat([p.grad.flatten() for p in of]).norm() for of in (first, head)]
        clip_grad_norm_(model.parameters(), config.training.clip or 1e9)
        after = torch.cat([p.grad.flatten() for p in mlp]).norm()
        adam.step()
        values = (norms[1], norms[3], before, *others, after)
        names = ("first_residual", "last_residual", *GRADIENT_NORMS)
        found.append({name: value.item() for name, value in zip(names, values, strict=True)})
    return found


@pytest.mark.parametrize(("model", "clip"), [(UNNORMED, 0.0), (CONNECTED, 0.3)])
def test_the_norms_are_those_of_the_model(model: ModelConfig, clip: float) -> None:
    config = config_of(model, clip=clip)
    trainer = make_trainer(config)
    for step, expected in enumerate(by_hand(config)):
        trainer.update(step)
        assert trainer.fetch().others == pytest.approx(expected, rel=2e-4)
    if clip:
        assert expected["mlp_grad_norm_clipped"] < expected["mlp_grad_norm"]


def test_a_tied_head_has_the_gradient_of_the_embedding() -> None:
    model = Model(replace(_SPEC, vocabulary=9, tied_head=True))
    (head,) = parts_of(model)[-1]
    assert head is model.read_in.weight


_SHAPES: dict[str, dict[str, Any]] = {
    "add": {},
    "lanes": {"injection": "none", "lanes": 2, "prelude": 1, "coda": 1},
    "FLT": {"injection": "none", "connectivity": "FLT", "block": "flt"},
    "standard": {"family": "standard", "n_layer": 6, "injection": "none"},
}


@pytest.mark.parametrize("shape", _SHAPES)
def test_the_steps_are_the_same(shape: str, tmp_path: Path) -> None:
    weights = []
    for recompute in (False, True):
        trainer = make_trainer(_config(tmp_path, shape, recompute=recompute, log_norms=True))
        for step in range(3):
            trainer.update(step)
        weights.append(torch.cat([p.detach().flatten() for p in trainer.parameters]))
    torch.testing.assert_close(*weights, rtol=0, atol=1e-6)


def test_what_is_stored_does_not_grow_with_the_activations_of_loops(tmp_path: Path) -> None:
    """Five more loops are five more states, [8, 9, 16], and what they read at the predictions."""
    sizes = {
        recompute: [
            _stored(make_trainer(_config(tmp_path, "add", loops=b, recompute=recompute)))
            for b in (3, 8)
        ]
        for recompute in (False, True)
    }
    growth = {recompute: (more - less) / 5 for recompute, (less, more) in sizes.items()}
    assert growth[True] < growth[False] / 4


def _config(folder: Path, shape: str, loops: int = 4, **training: Any) -> Config:
    model = replace(ModelConfig(n_embd=16, n_head=2, n_positions=5), **_SHAPES[shape])
    config = tiny(folder, optimizer="adamw", **training)
    return replace(config, model=model, loops=LoopsConfig(loops, 2, "all"))


def _stored(trainer: Trainer) -> int:
    """The bytes that a forward pass stores for the backward pass, each storage once."""
    stored: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        stored[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        kept.append(tensor)
        return tensor

    kept: list[Tensor] = []
    stage = trainer.curriculum(10**6)
    drawn(trainer, 0)
    with saved_tensors_hooks(keep, lambda tensor: tensor):
        trainer.losses(stage, trainer.batch(stage, 0))
    return sum(stored.values())
