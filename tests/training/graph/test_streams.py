"""Runs on streams of one graph: each has bit for bit the numbers that it has alone, whatever
becomes of the others."""

from __future__ import annotations

import math
import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from reloop.conf.schema import Config
from reloop.training import Interrupted, Run, RunError, train, train_together
from reloop.training.graph import GraphRunner
from reloop.training.run_folder.run import run_folder
from reloop.training.step import Trainer
from reloop.training.streams import Streams, side_by_side
from tests.training.graph.captured import BrokenRecorder, capture_all, everything, variant
from tests.training.graph.tape import TapeRecorder
from tests.training.tiny import assert_same_bits, make_trainer, saved_tensors, tiny


def _seeds(config: Config, *seeds: int) -> list[Config]:
    return [replace(config, seed=seed) for seed in seeds]


def _rates(config: Config, *rates: float) -> list[Config]:
    training = config.training
    return [replace(config, training=replace(training, learning_rate=rate)) for rate in rates]


def _streams(configs: Sequence[Config], recorder: TapeRecorder) -> Streams:
    trainers = [make_trainer(config) for config in configs]
    trainers[0].runner = GraphRunner(recorder)
    return Streams(trainers)


MEMBERS: dict[str, Callable[[Path], list[Config]]] = {
    "seeds": lambda folder: _seeds(variant("plain", folder), 0, 1),
    "rates": lambda folder: _rates(variant("rule", folder), 1e-3, 4e-3),
    "muon": lambda folder: _seeds(variant("muon", folder), 0, 1),
    "shards": lambda folder: _seeds(variant("shards", folder), 0, 1),
    "two shapes and curricula": lambda folder: [variant("plain", folder), tiny(folder)],
}


def _as_alone(configs: Sequence[Config], recorder: TapeRecorder, steps: int) -> Streams:
    """So many steps of all, each of which leaves behind what it does for each run alone."""
    alone, streams = [make_trainer(config) for config in configs], _streams(configs, recorder)
    for step in range(steps):
        streams.update(step)
        for trainer, member in zip(alone, streams.trainers, strict=True):
            trainer.update(step)
            assert_same_bits(everything(member), everything(trainer))
    for trainer, member in zip(alone, streams.trainers, strict=True):
        assert member.fetch() == trainer.fetch()
    return streams


@pytest.mark.parametrize("name", MEMBERS)
def test_each_is_as_alone(name: str, tmp_path: Path) -> None:
    """After the steps of several stages, with the operations of all replayed in turns: state,
    gradients and totals."""
    recorder = TapeRecorder()
    _as_alone(MEMBERS[name](tmp_path), recorder, 16)
    assert recorder.events.count("aside") + recorder.events.count("replay") == 16
    assert recorder.events.count("capture") == 2


def test_where_capturing_fails_all_go_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recorder = BrokenRecorder()
    streams = _as_alone(MEMBERS["shards"](tmp_path), recorder, 8)
    for member in streams.trainers:
        assert not set(recorder.held) & set(member.generators)
    assert recorder.events.count("capture") == 1
    out = capsys.readouterr().out
    assert out.count("\n") == out.count("not captured as a CUDA graph") == 1


def test_the_graph_of_a_run_alone_makes_room_for_that_of_all(tmp_path: Path) -> None:
    trainer, other = (make_trainer(config) for config in _seeds(tiny(tmp_path), 0, 1))
    trainer.runner = GraphRunner(TapeRecorder())
    for step in range(5):
        trainer.update(step)
    assert trainer.runner.replay is not None
    Streams([trainer, other])
    assert trainer.runner.replay is None


def test_one_alone_is_its_own_trainer(tmp_path: Path) -> None:
    trainer = make_trainer(tiny(tmp_path))
    assert side_by_side([trainer]) is trainer


def _short(folder: Path, *seeds: int, **training: Any) -> list[Config]:
    """Runs of 20 steps, which save every fifth."""
    return _seeds(tiny(folder, steps=20, checkpoint_every=5, **training), *seeds)


def _alone(configs: Sequence[Config]) -> list[Config]:
    """The same runs, trained one after another elsewhere."""
    alone = [replace(config, folder=f"{config.folder}/alone") for config in configs]
    for config in alone:
        train(config)
    return alone


def _assert_same_ends(configs: Sequence[Config], others: Sequence[Config]) -> None:
    """Weights, optimiser's state and the files of a run."""
    for config, other in zip(configs, others, strict=True):
        assert_same_bits(saved_tensors(config), saved_tensors(other))
        ours, theirs = run_folder(config), run_folder(other)
        assert ours.path.name == theirs.path.name
        for folders in ((ours.path, theirs.path), (ours.checkpoints, theirs.checkpoints)):
            names, wanted = (sorted(path.name for path in each.iterdir()) for each in folders)
            assert names == wanted
        assert (ours.status()["state"], ours.status()["step"]) == ("finished", 20)


@pytest.fixture
def on_streams(monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[TapeRecorder]]:
    """From its call on, all training is captured, together on streams; the recorders, as they are
    made."""

    def begin() -> list[TapeRecorder]:
        monkeypatch.setattr("reloop.training.streams.Together", Streams)
        return capture_all(monkeypatch)

    return begin


OnStreams = Callable[[], list[TapeRecorder]]


def _before_step(
    monkeypatch: pytest.MonkeyPatch, step: int, act: Callable[[Trainer], object]
) -> None:
    """Call `act` once, as the host sets step `step` of each run of seed 1."""
    prepare, folders = Trainer.prepare, set[str]()

    def prepared(self: Trainer, made: int) -> None:
        prepare(self, made)
        if (self.config.seed, made) == (1, step) and self.config.folder not in folders:
            folders.add(self.config.folder)
            act(self)

    monkeypatch.setattr(Trainer, "prepare", prepared)


@torch.no_grad()
def _spoil(trainer: Trainer) -> None:
    trainer.model.get_parameter("read_out.bias").fill_(math.inf)


def test_one_that_stands_further_back_catches_up(tmp_path: Path, on_streams: OnStreams) -> None:
    configs = _short(tmp_path, 0, 1, 2)
    alone = _alone(configs)
    train(configs[0], until=7)
    recorders = on_streams()
    assert all(isinstance(run, Run) for run in train_together(configs))
    _assert_same_ends(configs, alone)
    # The first stood further ahead; of the others, and then of all, the first has the graph.
    assert [recorder.events.count("capture") for recorder in recorders] == [1, 1, 0]


def test_one_that_diverges_leaves_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on_streams: OnStreams
) -> None:
    configs = _short(tmp_path, 0, 1, 2)
    others = configs[::2]
    alone = _alone(others)
    _before_step(monkeypatch, 12, _spoil)
    on_streams()
    failed = train_together(configs)[1]
    assert isinstance(failed, RunError)
    assert "step 13 gave a loss or gradient that is not finite" in str(failed)
    assert run_folder(configs[1]).status()["state"] == "failed"
    _assert_same_ends(others, alone)


def test_one_that_goes_back_catches_up_and_joins_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on_streams: OnStreams
) -> None:
    """What it loads has other places in memory, which the graph from before does not know."""
    configs = _short(tmp_path, 0, 1, on_divergence="rollback")
    _before_step(monkeypatch, 12, _spoil)
    alone = _alone(configs)
    recorders = on_streams()
    train_together(configs)
    assert float(saved_tensors(configs[1])["rate_factor"]) == 0.5
    assert recorders[0].events.count("capture") == 2  # before and after
    assert recorders[1].events.count("capture") == 1  # between
    _assert_same_ends(configs, alone)


def test_a_signal_saves_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on_streams: OnStreams
) -> None:
    configs = _short(tmp_path, 0, 1)
    alone = _alone(configs)
    on_streams()
    with monkeypatch.context() as patch:
        _before_step(patch, 12, lambda _: os.kill(os.getpid(), signal.SIGTERM))
        with pytest.raises(Interrupted, match="saved after step 13"):
            train_together(configs)
    assert [run_folder(config).status()["step"] for config in configs] == [13, 13]
    train_together(configs)
    _assert_same_ends(configs, alone)
