"""docs/example.py, the paper on a page: it learns, and its loop is that of the package."""

import runpy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional as F
from torch.testing import assert_close

from looplab.models import Model, ModelSpec
from looplab.tasks import Prompts
from tests.conftest import HOME

# PyTorch's names of what is in a layer, and ours.
_NAMES = {
    "self_attn.in_proj_": "qkv.",
    "self_attn.out_proj": "projection",
    "linear1": "expand",
    "linear2": "contract",
    "norm1": "norm_1",
    "norm2": "norm_2",
    "block": "loop.blocks.0",
    "positions": "loop.positions",
    "last_norm": "loop.norm",
}


@pytest.fixture(scope="module")
def example() -> dict[str, Any]:
    """The names of the script, imported."""
    return runpy.run_path(str(HOME / "docs" / "example.py"), run_name="example")


def test_it_learns_linear_functions_in_context(
    example: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """300 of its steps are enough to see it; without the examples no error is below zero's."""
    picture = tmp_path / "curve.png"
    curves = example["main"](steps=300, picture=str(picture))
    looped, zero = curves["looped"], curves["zero"]
    assert zero[-1] == pytest.approx(1, abs=0.1)
    assert looped[0] > 0.95 * zero[0]
    assert sum(looped[2:]) < 0.75 * sum(zero[2:])
    assert max(curves["least squares"][2:]) < 1e-6  # two examples determine w
    assert picture.read_bytes().startswith(b"\x89PNG")
    head, *rows = capsys.readouterr().out.splitlines()[-9:]
    assert head.split() == ["examples", "looped", "least", "squares", "zero"]
    assert rows[-1].split() == ["7", *(f"{curve[-1]:.3f}" for curve in curves.values())]


def test_its_loop_gives_the_numbers_of_the_package(example: dict[str, Any]) -> None:
    """The model of Looplab with the same weights: its predictions and its gradients."""
    torch.manual_seed(3)
    short = example["LoopedTransformer"]()
    spec = ModelSpec(dims=2, n_embd=32, n_head=4, n_positions=8, injection="add")
    model = Model(spec)
    weights = short.state_dict()
    for theirs, ours in _NAMES.items():
        weights = {name.replace(theirs, ours): weight for name, weight in weights.items()}
    # Of a query that stands after the pairs.
    weights["loop.positions"] = F.pad(weights["loop.positions"], (0, 0, 0, 1))
    model.load_state_dict(weights)
    xs, ys = example["sample"](5, torch.Generator().manual_seed(0))
    for loops, window in ((6, 3), (4, 4), (9, 1)):
        found = short(xs, ys, loops, window)
        assert_close(found, model(Prompts(xs, ys), loops, window))
    losses = (short(xs, ys, 6, 3), model(Prompts(xs, ys), 6, 3))
    for predictions in losses:
        (predictions - ys).square().mean().backward()
    assert_close(short.read_in.weight.grad, model.read_in.weight.grad)
    qkv = model.get_parameter("loop.blocks.0.qkv.weight")
    assert_close(short.block.self_attn.in_proj_weight.grad, qkv.grad)
