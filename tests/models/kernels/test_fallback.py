"""What has no kernel is eager's, and a line says so once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from looplab.models import Model, Queries
from looplab.models.blocks.gpt2 import Block
from looplab.models.kernels import segment
from tests.models.kernels.small_loops import make_pair, prompts_for, step
from tests.models.small import Batch, draw_prompts


@pytest.fixture(autouse=True)
def _untold() -> Iterator[None]:
    """As in a process that has said nothing yet."""
    segment._say.cache_clear()
    yield
    segment._say.cache_clear()


def assert_eager(pair: tuple[Model, ...], reason: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Two steps of both: equal bits, and one line."""
    for _ in range(2):
        ours, eager = (step(model, 3, 2, 2) for model in pair)
        assert ours.keys() == eager.keys()
        for name, result in eager.items():
            assert torch.equal(ours[name], result), name
    assert capsys.readouterr().out == f"backend triton: {reason}; eager takes its place\n"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"n_embd": 48}, "kernels need n_embd to be a multiple of 32 up to 512, got 48"),
        ({"n_embd": 544}, "kernels need n_embd to be a multiple of 32 up to 512, got 544"),
        ({"n_embd": 288, "n_head": 9}, "kernels in fp32 need n_embd to be at most 256, got 288"),
        ({"n_embd": 128, "n_head": 1}, "kernels need heads of at most 64, got 128"),
    ],
)
def test_shapes_without_a_kernel(
    device: torch.device,
    capsys: pytest.CaptureFixture[str],
    changes: dict[str, Any],
    reason: str,
) -> None:
    assert_eager(make_pair(device, None, **changes), reason, capsys)


def test_more_tokens_than_a_kernel_takes(
    device: torch.device, capsys: pytest.CaptureFixture[str]
) -> None:
    pair = make_pair(device, None, n_positions=513)
    prompts = Batch(*(part.to(device) for part in draw_prompts(1, 513)))
    ours, eager = (model(prompts, 2) for model in pair)
    assert torch.equal(ours, eager)
    reason = "kernels need at most 1024 tokens, got 1025"
    assert capsys.readouterr().out == f"backend triton: {reason}; eager takes its place\n"


def test_float64(device: torch.device, capsys: pytest.CaptureFixture[str]) -> None:
    pair = tuple(model.double() for model in make_pair(device, None))
    reason = "no kernels for streams of torch.float64 and weights of torch.float64"
    assert_eager(pair, reason, capsys)


def test_products_in_float16(device: torch.device, capsys: pytest.CaptureFixture[str]) -> None:
    reason = "no kernels for products in torch.float16"
    assert_eager(make_pair(device, torch.float16, injection="add"), reason, capsys)


def test_a_cpu_without_the_interpreter(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("looplab.models.kernels.segment.INTERPRETED.value", False)
    assert_eager(make_pair(torch.device("cpu"), None), "no kernels on cpu", capsys)


class OtherBlock(Block):
    """Not the block that kernels know."""


def test_another_block(device: torch.device, capsys: pytest.CaptureFixture[str]) -> None:
    pair = make_pair(device, None)
    for model in pair:
        model.loop.blocks[0].__class__ = OtherBlock
    assert_eager(pair, "no kernels for a SharedLoop of OtherBlock", capsys)


def test_queries(device: torch.device, capsys: pytest.CaptureFixture[str]) -> None:
    """In both segments of a pass, and in every step that is unrolled."""
    pair = make_pair(device, None)
    prompts = prompts_for(pair[0])
    queries = Queries(prompts.xs[:, :2], torch.tensor([3, 1]))
    ours, eager = (model(prompts, 3, 2, queries=queries) for model in pair)
    assert torch.equal(ours, eager)
    for (ours_at, _), (eager_at, _) in zip(
        *(model.unroll(prompts, 2, queries) for model in pair), strict=True
    ):
        assert torch.equal(ours_at.stream, eager_at.stream)
    reason = "no kernels for queries beside a prompt"
    assert capsys.readouterr().out == f"backend triton: {reason}; eager takes its place\n"


def test_every_reason_gets_its_line(
    device: torch.device, capsys: pytest.CaptureFixture[str]
) -> None:
    for width in (48, 80, 48):
        model, _ = make_pair(device, None, n_embd=width)
        model(prompts_for(model), 2)
    assert capsys.readouterr().out.count("\n") == 2


def test_kernels_where_they_serve_say_nothing(
    device: torch.device, capsys: pytest.CaptureFixture[str]
) -> None:
    model, _ = make_pair(device, None)
    model(prompts_for(model), 2)
    assert not capsys.readouterr().out
