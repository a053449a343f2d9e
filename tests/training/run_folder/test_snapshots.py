"""Snapshots: the weights after chosen steps, which later training does not remove."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from reloop.conf.mistakes import ConfigError
from reloop.conf.schema import Config, EvaluationConfig
from reloop.evaluation import evaluate, load_run, snapshots_of
from reloop.training import train, train_together
from reloop.training.run_folder.run import run_folder
from tests.training.tiny import Crash, after_step, assert_same_bits, crash, saved_tensors, tiny

_STEPS = (0, 3, 20, 60)


def _with(folder: Path, snapshots: tuple[int, ...] = _STEPS, **training: object) -> Config:
    return tiny(folder, snapshots=snapshots, **training)


def test_snapshot_is_the_run_as_it_was(tmp_path: Path) -> None:
    config = _with(tmp_path / "a", ema_decay=0.9)
    kept = snapshots_of(train(config).path)
    assert list(kept) == list(_STEPS)
    for step in (3, 20):
        paused = train(tiny(tmp_path / str(step), ema_decay=0.9), until=step)
        run = load_run(kept[step])
        assert run.step == step
        assert_same_bits(run.model.state_dict(), paused.model.state_dict())


def test_snapshots_change_neither_name_nor_weights(tmp_path: Path) -> None:
    without, config = tiny(tmp_path / "a"), _with(tmp_path / "b")
    train(without)
    train(config)
    assert run_folder(without).path.name == run_folder(config).path.name
    assert_same_bits(saved_tensors(without), saved_tensors(config))


def test_snapshot_is_evaluated_as_a_run_is(tmp_path: Path) -> None:
    path = snapshots_of(train(_with(tmp_path)).path)[20]
    result = evaluate(load_run(path), EvaluationConfig(prompts=16, resamples=10))
    assert result["remarks"][0] == "training unfinished: 20 of 60 steps"
    assert (path / "evaluation.json").exists()


def test_later_commands_keep_snapshots(tmp_path: Path) -> None:
    train(_with(tmp_path), until=25)
    path = train(tiny(tmp_path)).path  # goes on without the option
    assert list(snapshots_of(path)) == [0, 3, 20]


def test_killed_run_has_all_snapshots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = _with(tmp_path / "a")
    after_step(monkeypatch, 23, crash)
    with pytest.raises(Crash):
        train(config)
    path = train(config).path
    whole = train(_with(tmp_path / "b")).path
    for ours, theirs in zip(snapshots_of(path).values(), snapshots_of(whole).values(), strict=True):
        assert_same_bits(load_run(ours).model.state_dict(), load_run(theirs).model.state_dict())


def test_asked_too_late(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train(tiny(tmp_path))
    config = _with(tmp_path)
    run = train(config)
    said = capsys.readouterr().out
    assert "no snapshot of steps 0, 3, 20: it was past them" in said
    assert list(snapshots_of(run.path)) == [60]  # the weights that there are
    train(config, again=True)
    assert list(snapshots_of(run.path)) == list(_STEPS)
    assert_same_bits(load_run(run.path).model.state_dict(), run.model.state_dict())


def test_again_begins_an_unfinished_run_without_its_snapshots(tmp_path: Path) -> None:
    train(tiny(tmp_path), until=25)
    assert list(snapshots_of(train(_with(tmp_path), again=True).path)) == list(_STEPS)


def test_runs_trained_together_have_their_own(tmp_path: Path) -> None:
    configs = [_with(tmp_path), replace(_with(tmp_path, (7,)), seed=1)]
    runs = train_together(configs)
    assert [list(snapshots_of(run_folder(c).path)) for c in configs] == [list(_STEPS), [7]]
    assert all(not isinstance(run, Exception) for run in runs)


def test_snapshot_beyond_the_steps(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"training.snapshots.*61.*60 steps"):
        train(_with(tmp_path, (61,)))
