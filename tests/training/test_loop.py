"""What a training calls and logs as it goes on: callbacks, its early end by the errors of its log,
these errors; and one that begins with the weights of another run."""

import math
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from looplab.conf.mistakes import ConfigError, RunError
from looplab.conf.schema import Config, CurriculumConfig, EvaluationConfig, GrowthConfig
from looplab.evaluation.remarks import remarks
from looplab.evaluation.runs_table import runs_table
from looplab.show.evaluate import evaluate
from looplab.training import Callback, EarlyStopping, Run, train
from looplab.training.run_folder.checkpoint import save_checkpoint
from looplab.training.run_folder.metrics import Metrics
from looplab.training.run_folder.run import run_folder
from looplab.training.run_folder.status import status_of
from looplab.training.start import has_new_weights, keep_start
from tests.conftest import tiny_config
from tests.training.tiny import assert_same_bits, interrupted, saved_tensors, tiny


def resting(folder: Path, **training: Any) -> Config:
    """A run whose error never falls, measured every four steps."""
    config = tiny(folder, learning_rate=1e-30, **training)
    return replace(config, evaluation=EvaluationConfig(prompts=8, every=4))


class Notes(Callback):
    """Keeps what it is shown."""

    def __init__(self) -> None:
        self.logged: list[Mapping[str, Any]] = []
        self.errors: dict[int, float] = {}

    def on_log(self, step: int, values: Mapping[str, Any]) -> None:
        assert values["step"] == step
        self.logged.append(values)

    def on_evaluate(self, step: int, values: Mapping[str, float]) -> None:
        self.errors[step] = values["error"]


def test_callbacks_see_what_is_logged_and_change_nothing(tmp_path: Path) -> None:
    config, notes = resting(tmp_path / "a", steps=20), Notes()
    run = train(config, callbacks=[notes])
    assert notes.logged == Metrics(run.path / "metrics.jsonl").read()[0]
    assert list(notes.errors) == [4, 8, 12, 16, 20]
    plain = resting(tmp_path / "b", steps=20)
    train(plain)
    assert_same_bits(saved_tensors(config), saved_tensors(plain))


def test_a_training_that_rests_ends_and_goes_on_without_the_callback(tmp_path: Path) -> None:
    """After as many steps where it was interrupted, and to the end of one that never ended early;
    asked for again, it makes no step."""
    whole, config = resting(tmp_path / "whole"), resting(tmp_path / "early")
    train(whole)
    stop = [EarlyStopping(patience=3)]
    path = run_folder(config).path
    interrupted(config, 9)
    for _ in range(2):
        run = train(config, callbacks=stop)
        assert (run.step, status_of(path)["state"]) == (16, "stopped early")
    assert "training unfinished: 16 of 60 steps" in remarks(run)
    assert list(runs_table(tmp_path / "early").state) == ["stopped early"]
    assert train(resting(tmp_path / "at once"), callbacks=stop).step == 16
    assert train(config).step == 60
    assert_same_bits(saved_tensors(config), saved_tensors(whole))


def test_early_stopping_reads_errors_of_the_log(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"evaluation\.every must be given: EarlyStopping"):
        train(tiny(tmp_path / "runs"), callbacks=[EarlyStopping()])
    assert not (tmp_path / "runs").exists()


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


def small_config(folder: Path, *words: str) -> Config:
    sizes = ("task=linear", "task.dims=2", "task.points=4", "model.n_embd=8", "model.n_head=2")
    return Config.of(*sizes, f"folder={folder}", *words)


def test_it_begins_with_the_weights_that_are_evaluated(tmp_path: Path) -> None:
    first = train(small_config(tmp_path, "training.steps=3"))
    begun = train(small_config(tmp_path, "training.steps=0", f"training.start_from={first.path}"))
    assert begun.path != first.path
    for name, weights in first.model.state_dict().items():
        assert torch.equal(begun.model.state_dict()[name], weights)


def test_a_run_says_that_its_start_has_changed_and_outlives_it(tmp_path: Path) -> None:
    first = train(small_config(tmp_path, "training.steps=3"))
    words = ("training.steps=1", f"training.start_from={first.path}")
    begun = train(small_config(tmp_path, *words))
    assert not any("began with" in line for line in remarks(begun))
    other = train(small_config(tmp_path, "training.steps=3", "seed=1"))
    shutil.rmtree(first.path)
    other.path.rename(first.path)
    assert any("began with other weights" in line for line in remarks(begun))
    shutil.rmtree(first.path)
    again = train(small_config(tmp_path, *words))  # found, without its start
    assert torch.equal(again.model.read_in.weight, begun.model.read_in.weight)
    assert not any("began with" in line for line in remarks(again))


def test_of_a_start_that_does_not_ship_any_more_nobody_knows(tmp_path: Path) -> None:
    first = train(small_config(tmp_path, "training.steps=0"))
    keep_start(tmp_path, str(first.path))
    assert not has_new_weights(tmp_path, "shipped/gone")


def test_again_goes_on_with_an_unfinished_run_whose_start_is_gone(tmp_path: Path) -> None:
    first = train(tiny(tmp_path / "first"))
    config = tiny(tmp_path, start_from=str(first.path))
    interrupted(config, 24)
    shutil.rmtree(first.path)
    assert train(config, again=True).step == config.training.steps


def test_mistakes_name_the_setting(tmp_path: Path) -> None:
    first = train(small_config(tmp_path, "training.steps=0"))
    with pytest.raises(ConfigError, match=r"training\.start_from.*no checkpoint"):
        train(
            small_config(tmp_path, "training.steps=0", f"training.start_from={tmp_path / 'none'}")
        )
    with pytest.raises(ConfigError, match=r"training\.start_from.* is absent there and \["):
        train(small_config(tmp_path, "model.n_layer=2", f"training.start_from={first.path}"))


def test_a_checkpoint_of_an_edited_model_names_the_weight(tmp_path: Path) -> None:
    config = small_config(tmp_path, "training.steps=3")
    train(config)
    edited = saved_tensors(config) | {"model.read_in.bias": torch.ones(3)}
    save_checkpoint(run_folder(config).checkpoints, config.training.steps, edited)
    with pytest.raises(RunError, match=r"read_in\.bias is \[3\] there and .*; again=true"):
        train(config)
