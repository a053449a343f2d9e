"""The transformer near its initialisation against one in plain Python, its first steps against
AdamW written out; and what the figures of it hold."""

from itertools import pairwise, product

import numpy as np
import pytest
import torch
from torch import Tensor

from looplab.conf.mistakes import ConfigError
from looplab.experiments import near_init, update_changes
from looplab.experiments.near_init import (
    INITS,
    LABELS,
    Init,
    Near,
    Stack,
    TokenModel,
    changes,
    first_steps,
    increment_cosines,
    slopes,
    token_model,
)
from looplab.models.blocks.spec import BlockSpec
from looplab.models.loops.loop import LayerLoop, Loop
from looplab.models.loops.recurrent import RecurrentLoop
from tests.experiments.checks import check_panels, panels_of
from tests.models.plain_blocks import Array, plain_block

LOOPS, U, SCALE = 3, 2, 0.4


def small(shared: bool) -> tuple[TokenModel, Tensor]:
    """In float64, with every weight drawn."""
    spec = BlockSpec(8, 2, U if shared else U * LOOPS, kind="llama", length=5)
    loop: Loop = RecurrentLoop(spec) if shared else LayerLoop(spec)
    model = TokenModel(loop, LOOPS, 1 if shared else U, SCALE).double()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.5, generator=generator)
    return model, torch.tensor([[3, 250, 3, 17, 0]])


def plain_streams(model: TokenModel, tokens: Tensor) -> list[Array]:
    """The stream before the first loop and after each."""
    x = model.embedding.detach().numpy()[tokens[0].numpy()]
    streams, blocks = [x], list(model.loop.blocks)
    order = blocks * LOOPS if len(blocks) == U else blocks
    for index, block in enumerate(order, start=1):
        x = plain_block(model.loop.spec, block, x, scale=SCALE)
        if index % U == 0:
            streams.append(x)
    return streams


@pytest.mark.parametrize("shared", [True, False])
def test_streams_output_and_loss_are_the_formulas(shared: bool) -> None:
    model, tokens = small(shared)
    expected = plain_streams(model, tokens)
    streams = [stream[0].detach().numpy() for stream in model.streams(tokens)]
    assert len(streams) == LOOPS + 1
    for found, plain in zip(streams, expected, strict=True):
        np.testing.assert_allclose(found, plain, rtol=1e-9, atol=1e-12)
    raw, normed = model(tokens)
    np.testing.assert_allclose(raw[0].detach().numpy(), expected[-1], rtol=1e-9, atol=1e-12)
    gain = model.get_parameter("loop.norm.weight").detach().numpy()
    read = np.stack([x / np.sqrt((x**2).sum() / 8 + 1e-5) * gain for x in expected[-1]])
    np.testing.assert_allclose(normed[0].detach().numpy(), read, rtol=1e-9, atol=1e-12)
    losses = []
    for x, target in zip(read[:-1], tokens[0, 1:].tolist(), strict=True):
        logits = model.embedding.detach().numpy() @ x
        losses.append(np.log(np.exp(logits).sum()) - logits[target])
    assert model.loss(normed, tokens).item() == pytest.approx(np.mean(losses))


SETTING = Init(1, 0.5, 0.1, 1e-3)


def rms(x: Tensor) -> float:
    return float(x.detach().double().square().mean().sqrt())


def adam_step(model: TokenModel, moments: list[tuple[Tensor, Tensor]], step: int) -> None:
    """AdamW's update without decay, written out."""
    with torch.no_grad():
        for parameter, (first, second) in zip(model.parameters(), moments, strict=True):
            gradient = parameter.grad
            assert gradient is not None
            first.mul_(0.9).add_(0.1 * gradient)
            second.mul_(0.95).add_(0.05 * gradient**2)
            mean, square = first / (1 - 0.9**step), second / (1 - 0.95**step)
            parameter.sub_(1e-3 * mean / (square.sqrt() + 1e-8))


@pytest.mark.parametrize("shared", [True, False])
def test_steps_are_those_of_adamw(shared: bool) -> None:
    stack = Stack(2, shared, "linear")
    found = first_steps(SETTING, stack, seed=4, steps=3)
    model, tokens = token_model(SETTING, stack, seed=4)
    moments = [(torch.zeros_like(p), torch.zeros_like(p)) for p in model.parameters()]
    outputs = [model(tokens)]
    for step in (1, 2, 3):
        model.zero_grad()
        model.loss(outputs[-1][1], tokens).backward()
        adam_step(model, moments, step)
        outputs.append(model(tokens))
    raws, norms = zip(*outputs, strict=True)
    assert found["norm"].tolist() == pytest.approx([rms(raw) for raw in raws], rel=1e-4)
    for values, states in ((found["raw"], raws), (found["normed"], norms)):
        moved = [rms(b - a) for a, b in pairwise(states)]
        assert values.tolist() == pytest.approx(moved, rel=1e-4)


def test_slopes_are_those_of_power_laws_from_the_least_loops_on() -> None:
    loops = np.array([1, 2, 4, 8, 16])
    laws = np.stack([3 * loops**1.5, 0.2 * loops**-0.5, 7.0 * loops**0.0])
    laws[:, :2] = 100.0  # before the law begins
    assert slopes(loops.tolist(), laws, 4) == pytest.approx([1.5, -0.5, 0])
    noisy = loops**0.5 * np.array([1.0, 1.1, 0.9, 1.2, 1.0])
    fit = np.polyfit(np.log(loops[1:]), np.log(noisy[1:]), 1)[0]
    assert float(slopes(loops.tolist(), noisy, 2)) == pytest.approx(fit)


def test_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(near_init, "STEPS", 2)
    result, weak = changes(Near(loops=(1, 4, 6), seeds=2)), INITS["weak"]
    check_panels(panels_of(update_changes, result))
    for reading, scaling in product(("raw", "normed"), LABELS):
        runs = [first_steps(weak, Stack(r, True, scaling), 1, 2) for r in (1, 4, 6)]
        moved = np.array([run[reading] for run in runs])
        assert result["change"][reading][scaling]["by_seed"][1] == moved.tolist()
        slope = slopes([1, 4, 6], moved.T, 4)
        assert result["slope"][reading][scaling]["by_seed"][1] == pytest.approx(slope)
    with pytest.raises(ConfigError, match="loops must hold two numbers from 4 on"):
        changes(Near(loops=(1, 2, 4)))


def test_cosines_are_of_what_a_loop_adds() -> None:
    init, stack = INITS["strong"]._replace(layers=2), Stack(3, False, "none")
    found = increment_cosines(init, stack, 5)
    model, tokens = token_model(init, stack, 5)
    streams = [stream[0].detach().double().numpy() for stream in model.streams(tokens)]
    first, last = streams[1] - streams[0], streams[3] - streams[2]
    lengths = np.linalg.norm(first, axis=1) * np.linalg.norm(last, axis=1)
    assert found[0, 2] == pytest.approx(((first * last).sum(1) / lengths).mean())
