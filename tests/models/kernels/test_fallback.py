"""What has no kernel is eager's, and a line says so once."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from looplab.models import Model, Queries
from looplab.models.kernels import segment
from tests.models.kernels.small_loops import make_pair, prompts_for, step
from tests.models.small import WAYS, Batch, draw_prompts


@pytest.fixture(autouse=True)
def _untold() -> Iterator[None]:
    """As in a process that has said nothing yet."""
    segment._say.cache_clear()
    yield
    segment._say.cache_clear()


def assert_eager(pair: tuple[Model, ...], reason: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Two steps of both: equal bits, and one line that names the reason."""
    for _ in range(2):
        ours, eager = (step(model, 3, 2, 2) for model in pair)
        assert ours.keys() == eager.keys()
        for name, result in eager.items():
            assert torch.equal(ours[name], result), name
    said(reason, capsys)


def said(reason: str, capsys: pytest.CaptureFixture[str]) -> None:
    """In one line."""
    (line,) = capsys.readouterr().out.splitlines()
    assert reason in line


@pytest.mark.parametrize(
    ("dtype", "changes", "reason"),
    [
        (None, {"n_embd": 48}, "n_embd"),
        (None, {"n_embd": 544}, "n_embd"),
        (None, {"n_embd": 288, "n_head": 9}, "n_embd"),
        (None, {"n_embd": 128, "n_head": 1}, "heads"),
        (torch.float16, {"injection": "add"}, "torch.float16"),
        (None, WAYS["FLT"], "ConnectedLoop"),
        (None, WAYS["recurrent, add"], "RecurrentLoop"),
        (None, WAYS["unnormed, prelude"], "RecurrentLoop"),
        (None, WAYS["shared, llama"], "PreNormBlock"),
    ],
)
def test_what_has_no_kernel(
    device: torch.device,
    capsys: pytest.CaptureFixture[str],
    dtype: torch.dtype | None,
    changes: dict[str, Any],
    reason: str,
) -> None:
    assert_eager(make_pair(device, dtype, **changes), reason, capsys)


def test_more_tokens_than_a_kernel_takes(
    device: torch.device, capsys: pytest.CaptureFixture[str]
) -> None:
    pair = make_pair(device, None, n_positions=513)
    prompts = Batch(*(part.to(device) for part in draw_prompts(1, 513)))
    ours, eager = (model(prompts, 2) for model in pair)
    assert torch.equal(ours, eager)
    said("tokens", capsys)


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
    said("queries", capsys)
