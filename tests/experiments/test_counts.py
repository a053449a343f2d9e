"""Counts of configurations against numbers that are known or counted by hand."""

import pytest
import torch

from looplab.conf.schema import EvaluationConfig
from looplab.experiments import counts
from looplab.experiments.counts import measure
from looplab.experiments.definition import configuration
from looplab.training.assemble import build_model, build_task
from tests.experiments.checks import check_panels, panels_of

_WIDTH = {"model.n_embd": 16, "model.n_head": 2}
_SMALL = {"task": "linear", "task.dims": 3, "task.points": 7, **_WIDTH}
_LLAMA = {"task": "language", "task.points": 8, "model": "unnormed", "model.block": "llama"}
_DEEP = {"model.n_layer": 48, "model.residual_scaling": "factored"}


def test_parameters_and_operations_are_those_of_the_models() -> None:
    found = measure(
        [],
        EvaluationConfig(),
        commands={
            "looped": {"task": "linear", "scale": "paper"},
            "standard": {"task": "linear", "scale": "paper", "model": "standard"},
            "deep": {**_LLAMA, **_WIDTH, **_DEEP},
        },
        untrained={},
    )
    looped, standard, deep = found["counts"].values()
    assert [looped["backbone"], standard["backbone"]] == [790_272, 9_477_632]
    # Twenty loops of one layer beside twelve layers; two FLOPs for a weight and token.
    assert looped["prediction"] / standard["prediction"] == pytest.approx(20 / 12, rel=0.02)
    attention = 20 * 4 * 82**2 * 256
    matrices = 20 * 12 * 256**2
    assert looped["prediction"] == pytest.approx(2 * 82 * matrices + attention, rel=0.03)
    assert looped["epsilon"] == standard["rate"] == 1.0
    assert deep["rate"] == 0.5
    assert check_panels(panels_of(counts, found)) == [
        *("counts-parameters", "counts-step", "counts-prediction")
    ]


def test_a_new_block_of_the_fully_looped_paper_adds_nothing() -> None:
    words = {**_SMALL, "model": "FLT", "loops.b": 3}
    gpt2 = {**_SMALL, "model": "unnormed", "loops.b": 3}
    found = measure([], EvaluationConfig(), commands={}, untrained={"FLT": words, "gpt2": gpt2})
    assert found["moved"]["FLT"] == 0.0
    config = configuration(gpt2)
    task = build_task(config)
    model = build_model(config, task)
    prompts = task.sample(torch.Generator().manual_seed(config.evaluation.seed), 16, 7)
    states = [state.raw for state, _ in model.unroll(prompts, 3)]
    moved = max(float((state - states[0]).norm() / states[0].norm()) for state in states)
    assert 0.01 < moved == pytest.approx(found["moved"]["gpt2"], rel=0.2)
