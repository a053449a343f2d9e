"""Runs trained together: each has its run folder, can be gone on with alone, and fails alone."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from reloop.conf.mistakes import ConfigError
from reloop.conf.schema import Config, EvaluationConfig
from reloop.evaluation import evaluate, load_run
from reloop.training import Interrupted, Run, RunError, train, train_together
from reloop.training.run_folder.checkpoint import saved_steps
from reloop.training.run_folder.run import run_folder
from reloop.training.together import Together

from .tiny import spoil_ys, tiny


def of_seeds(folder: Path, *seeds: int, **training: Any) -> list[Config]:
    return [replace(tiny(folder, **training), seed=seed) for seed in seeds]


def finished(runs: Sequence[Run | RunError]) -> list[Run]:
    assert all(isinstance(run, Run) for run in runs)
    return [run for run in runs if isinstance(run, Run)]


def after_step(monkeypatch: pytest.MonkeyPatch, step: int, act: Callable[[], object]) -> None:
    """Call `act` when step `step` has been made by several runs."""
    update = Together.update

    def wrapped(self: Together, made: int) -> None:
        update(self, made)
        if made == step:
            act()

    monkeypatch.setattr(Together, "update", wrapped)


def assert_close(run: Run, other: Run) -> None:
    """Weights within 1e-5, but for the keys' bias, which predictions do not depend on."""
    for name, tensor in other.model.state_dict().items():
        if not name.endswith("qkv.bias"):
            found = run.model.state_dict()[name]
            torch.testing.assert_close(found, tensor, rtol=0, atol=1e-5, msg=name)


@pytest.mark.slow
def test_each_run_has_the_folder_and_weights_that_it_has_alone(tmp_path: Path) -> None:
    together = finished(train_together(of_seeds(tmp_path / "together", 0, 1, 2)))
    for run, config in zip(together, of_seeds(tmp_path / "alone", 0, 1, 2), strict=True):
        alone = train(config)
        assert run.path.name == alone.path.name
        assert_close(run, alone)
        assert_close(load_run(run.path), run)
        status = json.loads((run.path / "status.json").read_text())
        assert (status["state"], status["step"]) == ("finished", 60)
        ours, theirs = (
            [json.loads(line) for line in (each.path / "metrics.jsonl").read_text().splitlines()]
            for each in (run, alone)
        )
        assert [record["step"] for record in ours] == [record["step"] for record in theirs]
        for our, their in zip(ours, theirs, strict=True):
            assert our.keys() == their.keys()
            assert our["loss"] == pytest.approx(their["loss"], rel=1e-4)
        assert saved_steps(run.path / "checkpoints") == saved_steps(alone.path / "checkpoints")
        asked = EvaluationConfig(prompts=8, max_loops=4, baselines=())
        assert evaluate(run, asked)["by_examples"]["model_at_b"]["mean"]


def test_finished_runs_are_returned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    configs = of_seeds(tmp_path, 0, 1)
    before = finished(train_together(configs))
    monkeypatch.setattr(Together, "update", None)
    for run, other in zip(finished(train_together(configs)), before, strict=True):
        assert_close(run, other)


def test_one_that_stands_further_back_catches_up(tmp_path: Path) -> None:
    first, second = of_seeds(tmp_path, 0, 1)
    train(first, until=33)
    runs = finished(train_together([first, second]))
    for run, config in zip(runs, of_seeds(tmp_path / "alone", 0, 1), strict=True):
        assert_close(run, train(config))


def test_a_run_goes_on_alone(tmp_path: Path) -> None:
    configs = of_seeds(tmp_path, 0, 1)
    assert [run.step for run in finished(train_together(configs, until=25))] == [25, 25]
    (alone,) = of_seeds(tmp_path / "alone", 1)
    assert_close(train(configs[1]), train(alone))
    assert run_folder(configs[0]).status()["state"] == "interrupted"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_saves_all(
    number: int, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configs = of_seeds(tmp_path, 0, 1)
    whole = finished(train_together(of_seeds(tmp_path / "whole", 0, 1)))
    with monkeypatch.context() as patch:
        after_step(patch, 12, lambda: os.kill(os.getpid(), number))
        with pytest.raises(Interrupted, match="saved after step 13") as stop:
            train_together(configs)
    assert stop.value.exit_code == code
    for run, other in zip(finished(train_together(configs)), whole, strict=True):
        assert run.step == 60
        for name, tensor in other.model.state_dict().items():
            assert torch.equal(run.model.state_dict()[name], tensor), name


def test_one_that_diverges_is_recorded_and_the_rest_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configs = of_seeds(tmp_path, 0, 1, 2)
    with monkeypatch.context() as patch:
        spoil_ys(
            patch, float("nan"), lambda trainer, step, _: trainer.config.seed == 1 and step == 20
        )
        runs = train_together(configs)
    failed = runs[1]
    assert isinstance(failed, RunError)
    assert "step 21 gave a loss or gradient that is not finite" in str(failed)
    assert run_folder(configs[1]).status()["state"] == "failed"
    for run, config in zip(runs, of_seeds(tmp_path / "alone", 0, 1, 2), strict=True):
        if isinstance(run, Run):
            assert_close(run, train(config))


def test_one_that_goes_back_to_its_checkpoint_catches_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    configs = of_seeds(tmp_path, 0, 1, on_divergence="rollback")
    spoil_ys(
        monkeypatch,
        float("inf"),
        lambda trainer, step, _: (
            trainer.config.seed == 1 and step == 23 and trainer.rate_factor == 1
        ),
    )
    runs = finished(train_together(configs))
    assert "back to step 20 at 0.5 x the rate" in capsys.readouterr().out
    assert [run.step for run in runs] == [60, 60]
    for run, config in zip(
        runs, of_seeds(tmp_path / "alone", 0, 1, on_divergence="rollback"), strict=True
    ):
        assert_close(run, train(config))


def test_seconds_are_shared(tmp_path: Path) -> None:
    configs = of_seeds(tmp_path, 0, 1, 2, steps=200)
    start = os.times()
    train_together(configs)
    spent = sum(os.times()[:2]) - sum(start[:2])
    total = sum(run_folder(config).status()["cpu_seconds"] for config in configs)
    assert 0.3 * spent < total <= spent + 0.1


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"batch_size": 16}, "training.batch_size"),
        ({"log_every": 7}, "training.log_every"),
    ],
)
def test_what_cannot_differ_is_named(change: dict[str, Any], key: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"{key} cannot differ"):
        train_together([tiny(tmp_path), replace(tiny(tmp_path, **change), seed=1)])
    assert not any(tmp_path.iterdir())


def test_the_same_run_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="must differ"):
        train_together(of_seeds(tmp_path, 0, 1, 0))
