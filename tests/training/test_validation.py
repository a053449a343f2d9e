"""Errors on the evaluation's prompts in the log of a training."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from looplab.conf.schema import Config, CurriculumConfig, GrowthConfig
from looplab.show.evaluate import evaluate
from looplab.training import Run, train
from looplab.training.run_folder.metrics import Metrics
from tests.conftest import tiny_config


def errors_of(run: Run, name: str = "error") -> dict[int, float]:
    records, _ = Metrics(run.path / "metrics.jsonl").read()
    return {record["step"]: record[name] for record in records if name in record}


def validated(config: Config, every: int | None) -> Config:
    """With averaged weights, which an evaluation reads, and all loops from the first step."""
    config = replace(config, curriculum=CurriculumConfig(loops=GrowthConfig(start=config.loops.b)))
    evaluation = replace(config.evaluation, every=every)
    return replace(config, evaluation=evaluation, training=replace(config.training, ema_decay=0.9))


def test_the_last_error_is_the_evaluation_s_and_training_is_the_same(tmp_path: Path) -> None:
    with_it = train(validated(tiny_config(tmp_path / "a"), 15))
    without = train(validated(tiny_config(tmp_path / "b"), None))
    assert with_it.path.name == without.path.name
    for one, other in zip(with_it.model.parameters(), without.model.parameters(), strict=True):
        assert torch.equal(one, other)
    errors = errors_of(with_it)
    assert list(errors) == [15, 30]
    assert not errors_of(without)

    last = train(validated(tiny_config(tmp_path / "c"), 40))
    assert list(errors_of(last)) == [40]
    result = evaluate(last)
    b = last.config.loops.b
    assert errors_of(last)[40] == pytest.approx(result["by_loop"]["model"]["mean"][b - 1], rel=1e-5)


def test_with_drawn_loops_it_is_read_after_their_mean(tmp_path: Path) -> None:
    config = validated(tiny_config(tmp_path), 40)
    loops = replace(config.loops, sampling="uniform")
    run = train(replace(config, loops=loops, curriculum=CurriculumConfig()))
    error = evaluate(run)["by_loop"]["model"]["mean"][run.config.loops.b - 1]
    assert errors_of(run)[40] == pytest.approx(error, rel=1e-5)


def test_of_a_text_it_is_bits_per_byte(tmp_path: Path) -> None:
    words = ["task=language", "scale=small", "training.steps=2", "training.batch_size=2"]
    small = ["model.n_embd=16", "model.n_head=2", "task.points=32", "curriculum.loops.start=null"]
    every = ["evaluation.every=2", "evaluation.prompts=4", f"folder={tmp_path}", "loops.b=2"]
    run = train(Config.of(*words, *small, *every))
    ((_, bits),) = errors_of(run, "bits_per_byte").items()
    assert bits == pytest.approx(8, abs=3)
    assert math.isfinite(bits)
