"""The cost model counts what PyTorch counts, and gives the figures it was first drawn up with."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from looplab.benchmarks.cost import CARDS, H100, work_of
from looplab.benchmarks.settings import Name, named_config
from looplab.conf.schema import Config, LoopsConfig, ModelConfig, TaskConfig, TrainingConfig
from looplab.training.assemble import build_curriculum, build_model, build_task

# The paper's settings with the last y: GFLOP a step with causal and with dense attention,
# microseconds at 800 TFLOP/s, megabytes under four forward kernels a block; computed apart.
TABLE: dict[Name, tuple[int, ...]] = {
    "linear": (426, 438, 532, 3547),
    "sparse": (340, 350, 425, 2768),
    "tree": (2178, 2321, 2722, 15979),
    "relu": (480, 513, 600, 3694),
    "standard": (307, 316, 383, 2885),
}
SHAPE: dict[str, Any] = {"n_embd": 16, "n_head": 2, "n_positions": 6}


def tiny(model: ModelConfig) -> Config:
    return Config(
        task=TaskConfig("linear", dims=3, points=6),
        model=model,
        loops=LoopsConfig(b=5, T=3),
        training=TrainingConfig(steps=3000, batch_size=4),
    )


@pytest.mark.parametrize(
    "model",
    [
        ModelConfig("looped", 1, **SHAPE),
        ModelConfig("looped", 2, **SHAPE),
        ModelConfig("standard", 3, **SHAPE, injection="none"),
        ModelConfig("tied", 2, **SHAPE, injection="none"),
    ],
    ids=str,
)
def test_pytorch_counts_the_same(model: ModelConfig) -> None:
    config = tiny(model)
    task = build_task(config)
    stage = build_curriculum(config, task)(config.training.steps)
    prompts = task.sample(torch.Generator(), 4, stage.points)
    # Only attention out of plain products is counted on every device. It is dense, and it keeps its
    # scores for the backward pass.
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        predictions = build_model(config, task)(
            prompts, stage.loops, stage.window, grad_loops=stage.grad_loops
        )
        predictions.square().mean().backward()
    counts = {str(op): flops for op, flops in counter.get_flop_counts()["Global"].items()}
    work = work_of(config)
    read_in = 2 * 2 * work.tokens * task.dims * work.width  # forward, and its weights' gradient
    read_out = 3 * 2 * stage.window * stage.points * 4 * work.width
    assert counts["aten.bmm"] == work.attention_flops(causal=False, backward=2)
    # After the last attention our model goes on at the x alone: 18 of a block's 24 D², both ways.
    spared = 3 * 18 * work.width**2 * (work.tokens - 4 * stage.points)
    counted = counts["aten.mm"] + counts["aten.addmm"]
    assert counted + spared == work.product_flops + read_in + read_out


@pytest.mark.parametrize("name", TABLE)
def test_the_paper_settings_cost_what_the_table_says(name: Name) -> None:
    causal, dense, floor, moved = TABLE[name]
    work = work_of(named_config(name), last_y=True)
    assert round(work.flops / 1e9) == causal
    assert round((work.product_flops + work.attention_flops(causal=False)) / 1e9) == dense
    assert round(1e6 * work.flops / H100.rates["bf16"]) == floor
    # That count had its own list of what a backward pass reads and writes.
    assert work.traffic() / 1e6 == pytest.approx(moved, rel=0.02)


def test_our_model_leaves_out_the_last_y() -> None:
    config = named_config("sparse")
    ours, theirs = work_of(config), work_of(config, last_y=True)
    assert (ours.length, theirs.length) == (81, 82)
    assert ours.product_flops * 82 == theirs.product_flops * 81


def test_a_narrower_stream_moves_less() -> None:
    work = work_of(named_config("sparse"))
    assert work.traffic(residual_bytes=2) < work.traffic()
    assert replace(work, backwards=0).traffic() < work.traffic()


def test_only_the_very_card_is_known() -> None:
    assert CARDS["NVIDIA H100 80GB HBM3"] is H100
    assert "NVIDIA H100 PCIe" not in CARDS
