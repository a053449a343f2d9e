"""The time of steps and of a training on a GPU against what was measured on one."""

import json

import pytest

from looplab.benchmarks.settings import NAMES, at_full_size, named_config
from looplab.conf.schema import Config
from looplab.experiments.flops import shapes_of
from looplab.experiments.gpu_time import RESULTS, StepTimes, gpu_time, sizes_of, timed_steps
from looplab.experiments.plan import plan_of
from looplab.training.assemble import build_curriculum, build_task

_SPARSE = ("task=sparse_linear", "scale=paper")


def test_each_measured_step_is_predicted_by_the_others() -> None:
    """24 steps from 3.7 to 42 ms: four tasks, three backends, two precisions, captured or not."""
    measured = timed_steps()
    assert len(measured) == 24
    for step, seconds in measured.items():
        others = {other: time for other, time in measured.items() if other != step}
        assert StepTimes(others)(step) == pytest.approx(seconds, rel=0.25), step


def test_a_whole_measured_run_is_predicted() -> None:
    """50,000 steps in 244 s (docs/log.md), no second of which the model was fitted to."""
    config = Config.of(*_SPARSE, "recipe=fast", "precision=bf16", "backend=triton")
    time = gpu_time(config, shapes_of(config))
    assert time.is_timed
    assert time.seconds == pytest.approx(244, rel=0.25)


def test_the_shapes_of_measured_steps_are_those_of_their_configurations() -> None:
    for path in RESULTS.glob("step_*.json"):
        for name, result in json.loads(path.read_text())["settings"].items():
            assert name in NAMES
            config = at_full_size(named_config(name))
            stage = build_curriculum(config, build_task(config))(config.training.steps)
            assert result["shape"] == sizes_of(config, stage)


@pytest.mark.parametrize(
    ("word", "measured"),
    [
        ("backend=compile", True),
        ("loops.sampling=uniform", True),
        ("precision=mixed", False),
        ("model.block=llama", False),
        ("model.n_embd=1024", False),
        ("training.recompute=true", False),
    ],
)
def test_what_was_not_measured_is_told_by_flops_alone(word: str, measured: bool) -> None:
    config = Config.of(*_SPARSE, word)
    assert gpu_time(config, shapes_of(config)).is_timed == measured


def test_a_plan_says_which_card_it_knows_and_nothing_of_seconds() -> None:
    """3.68 ms a step at full size are 31 minutes; the first steps have fewer points and loops."""
    text = plan_of(Config.of(*_SPARSE, "precision=bf16"))
    assert "on an NVIDIA H200 about 29 min in bf16, by steps measured there" in text
    assert "NVIDIA" not in plan_of(Config.of("task=linear"))
