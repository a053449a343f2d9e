"""Captured steps are the steps: none lost, none made twice, none on a stale graph; and what they
ask of CUDA, seen without one."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import Generator

from looplab.training import train
from looplab.training.graph import Body, CudaRecorder, GraphRunner
from looplab.training.run_folder.checkpoint import Checkpoint
from tests.training.graph.captured import (
    RULE,
    VARIANTS,
    BrokenRecorder,
    capture_all,
    captured_trainer,
    everything,
    variant,
)
from tests.training.tiny import (
    Crash,
    assert_same_bits,
    copied,
    crash,
    crashed,
    make_trainer,
    saved_tensors,
    spoil_ys,
    tiny,
)


@pytest.mark.parametrize("name", VARIANTS)
def test_captured_is_uncaptured(name: str, tmp_path: Path) -> None:
    """To the bit, after every step: weights, Adam's state, gradients and totals. A tape knows
    nothing of Python: what the host changes and the device is not told stays as it was."""
    config = variant(name, tmp_path)
    plain, (taped, recorder) = make_trainer(config), captured_trainer(config)
    for step in range(22):
        plain.update(step)
        taped.update(step)
        assert_same_bits(everything(taped), everything(plain))
    assert plain.fetch() == taped.fetch()
    assert "replay" in recorder.events


def test_each_stage_is_run_three_times_then_captured_once(tmp_path: Path) -> None:
    trainer, recorder = captured_trainer(variant("plain", tmp_path))
    stages, wanted, made = [trainer.curriculum(step) for step in range(22)], [], 0
    for step, stage in enumerate(stages):
        made = made + 1 if step and stage == stages[step - 1] else 1
        wanted += ["warm_up"] if made <= 3 else ["capture", "replay"] if made == 4 else ["replay"]
        trainer.update(step)
    assert recorder.events == wanted
    assert wanted.count("capture") == 3
    assert len(set(stages)) == 5


class _Watched(CudaRecorder):
    """A recorder that says which graphs are alive when it is asked for something."""

    def __init__(self) -> None:
        self.alive, self.log = 0, list[tuple[str, int]]()

    def warm_up(self, body: Body) -> None:
        self.log.append(("warm_up", self.alive))
        body()

    def capture(self, body: Body, generators: Sequence[Generator]) -> Callable[[], None]:
        self.log.append(("capture", self.alive))
        watched = self

        class Graph:
            def __init__(self) -> None:
                watched.alive += 1

            def __del__(self) -> None:
                watched.alive -= 1

            def __call__(self) -> None:
                body()

        return Graph()


def test_the_old_graph_is_gone_before_the_next_needs_memory() -> None:
    recorder, made = _Watched(), list[str]()
    runner = GraphRunner(recorder)
    for key in "aaaaabbbbbaaaaacaaaaa":
        runner.run(key, lambda key=key: made.append(key), [])  # type: ignore[misc]
    assert "".join(made) == "aaaaabbbbbaaaaacaaaaa"
    assert all(alive == 0 for _, alive in recorder.log)
    assert recorder.alive == 1
    runner.drop()
    assert recorder.alive == 0


def test_without_a_recorder_the_body_is_called() -> None:
    made: list[int] = []
    runner = GraphRunner(None)
    for step in range(6):
        runner.run("a", lambda step=step: made.append(step), [])  # type: ignore[misc]
    assert made == list(range(6))


def test_a_checkpoint_is_gone_on_from_without_the_old_graph(tmp_path: Path) -> None:
    """Loading puts Adam's state elsewhere, and a graph would write where it was."""
    config = tiny(tmp_path, **RULE)
    plain, (taped, recorder) = make_trainer(config), captured_trainer(config)
    for step in range(5):
        plain.update(step)
    checkpoint = Checkpoint(5, copied(plain.state()))
    for step in range(9):
        taped.update(step)
    for step in range(5, 15):
        plain.update(step)
    taped.load(checkpoint)
    assert taped.runner.replay is None
    for step in range(5, 15):
        taped.update(step)
    assert_same_bits(taped.state(), plain.state())
    assert recorder.events.count("capture") == 2


@pytest.mark.parametrize("stop", [2, 13, 25])
def test_a_run_stopped_within_a_stage_ends_as_undisturbed(
    stop: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it is captured again is another step than in the undisturbed run, which is not captured
    at all: the ends are the same."""
    whole, stopped = (tiny(tmp_path / name, **RULE) for name in ("whole", "stopped"))
    train(whole)
    recorders = capture_all(monkeypatch)
    crashed(stopped, stop)
    train(stopped)
    assert_same_bits(saved_tensors(stopped), saved_tensors(whole))
    assert [recorder.events.count("capture") for recorder in recorders][1] == 1


def test_the_record_of_a_bad_step_leaves_the_graph_as_it_was(tmp_path: Path) -> None:
    """Drawing another step's batch in between moves no later step."""
    plain, (taped, _) = make_trainer(tiny(tmp_path)), captured_trainer(tiny(tmp_path))
    for step in range(12):
        plain.update(step)
        taped.update(step)
        first, again = taped.prompts(3, 0), taped.prompts(3, 0)
        assert torch.equal(first.xs, again.xs)
    assert_same_bits(taped.state(), plain.state())


def test_a_bad_step_is_named_by_its_number(tmp_path: Path) -> None:
    """A number of the host's would be that of the captured step for ever."""
    trainer, _ = captured_trainer(tiny(tmp_path))
    for step in range(8):
        trainer.update(step)
    with torch.no_grad():
        trainer.model.get_parameter("read_out.bias").fill_(math.nan)
    for step in (8, 9):
        trainer.update(step)
    assert trainer.fetch().bad_step == 8


def test_where_capturing_fails_training_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = variant("shards", tmp_path)
    plain, taped, recorder = make_trainer(config), make_trainer(config), BrokenRecorder()
    taped.runner = GraphRunner(recorder)
    for step in range(22):
        plain.update(step)
        taped.update(step)
    assert_same_bits(everything(taped), everything(plain))
    assert recorder.events.count("capture") == 1
    assert not {id(generator) for generator in recorder.held} & {
        id(generator) for generator in taped.generators
    }
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    assert "not captured as a CUDA graph" in out
    assert "not permitted when stream is capturing" in out


def test_a_mistake_in_a_step_is_no_failed_capture(tmp_path: Path) -> None:
    trainer, _ = captured_trainer(tiny(tmp_path))

    def broken(*args: object, **settings: object) -> None:
        raise Crash

    trainer.model.run_segment = broken  # type: ignore[assignment]
    with pytest.raises(Crash):
        trainer.update(0)


def test_the_tape_can_tell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch that the host spoils from step 6 on: a captured step does not know of it."""
    plain, (taped, _) = make_trainer(tiny(tmp_path)), captured_trainer(tiny(tmp_path))
    spoil_ys(monkeypatch, 7.0, lambda _, step, shard: step >= 6)
    for step in range(8):
        plain.update(step)
        taped.update(step)
    with pytest.raises(AssertionError):
        assert_same_bits(taped.state(), plain.state())


class _Stream:
    """Named in the order in which they are made."""

    device = torch.device("cuda", 0)

    def __init__(self, log: list[str], name: str) -> None:
        self.log, self.name = log, name

    def wait_stream(self, other: _Stream) -> None:
        self.log.append(f"{self.name} waits for {other.name}")


@pytest.fixture
def log(cuda: Callable[..., None]) -> list[str]:
    """What is asked of CUDA from here on."""
    log: list[str] = []
    names, main = iter("abc"), _Stream(log, "main")

    class Graph:
        def register_generator_state(self, generator: Generator) -> None:
            log.append(f"register {generator.initial_seed()}")

        def replay(self) -> None:
            log.append("replay")

    @contextmanager
    def on(stream: _Stream) -> Iterator[None]:
        log.append(f"on {stream.name}")
        try:
            yield
        finally:
            log.append(f"off {stream.name}")

    @contextmanager
    def capturing(graph: Graph, stream: _Stream) -> Iterator[None]:
        log.append(f"begin on {stream.name}")
        try:
            yield
        finally:
            log.append("end")

    cuda(Stream=lambda device: _Stream(log, next(names)), current_stream=lambda device: main)
    cuda(stream=on, CUDAGraph=Graph, graph=capturing)
    return log


def test_what_is_asked_of_cuda_and_in_which_order(log: list[str]) -> None:
    """Generators are known before the capture begins; the caller's stream waits for the other and
    comes back even from a capture that breaks."""
    recorder, body = CudaRecorder(torch.device("cuda")), partial(log.append, "body")
    recorder.warm_up(body)
    assert log == ["a waits for main", "on a", "body", "off a", "main waits for a"]
    log.clear()
    replay = recorder.capture(body, [Generator().manual_seed(seed) for seed in (3, 4)])
    replay()
    assert log == [
        *("register 3", "register 4", "on a", "begin on a", "body", "end", "off a", "replay")
    ]
    log.clear()
    with pytest.raises(Crash):
        recorder.capture(crash, [])
    assert log[-1] == "off a"


def test_only_cuda_captures(tmp_path: Path) -> None:
    assert make_trainer(tiny(tmp_path)).runner.recorder is None
