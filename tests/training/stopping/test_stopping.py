"""Stopped at any moment, by Ctrl-C, SIGTERM, kill -9 or a crash: everything is saved or taken up
again, and the same command ends, bit for bit, as a run that was left in peace."""

import random
import signal
import threading
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from looplab.conf.schema import (
    Config,
    CurriculumConfig,
    GrowthConfig,
    LoopsConfig,
    ModelConfig,
    TaskConfig,
)
from looplab.evaluation.load import load_run
from looplab.training import Run, train
from looplab.training.assemble import build_model
from looplab.training.run_folder.checkpoint import Checkpoint, newest_checkpoint, saved_steps
from looplab.training.run_folder.run import RunFolder, run_folder
from tests.training.stopping.killed import Driven
from tests.training.tiny import assert_same_bits, crashed, interrupted, saved_tensors, tiny

SIGNALS = [(signal.SIGINT, 130), (signal.SIGTERM, 143)]


@pytest.mark.parametrize(("number", "code"), SIGNALS)
def test_saved_and_said(number: signal.Signals, code: int, tmp_path: Path) -> None:
    config = tiny(tmp_path)
    handlers = [signal.getsignal(known) for known, _ in SIGNALS]
    stop = interrupted(config, 12, number)
    assert "saved after step 13; the same command resumes" in str(stop)
    assert stop.exit_code == code
    assert [signal.getsignal(known) for known, _ in SIGNALS] == handlers
    folder = run_folder(config)
    assert saved_steps(folder.checkpoints) == [10, 13]
    assert float(saved_tensors(config)["adam.step.read_in.weight"]) == 13
    status = folder.status()
    assert (status["state"], status["step"]) == ("interrupted", 13)
    assert '"step": 13' in folder.metrics.read_text().splitlines()[-1]


def test_in_the_last_step_the_run_is_finished(tmp_path: Path) -> None:
    config = tiny(tmp_path)
    assert "saved after step 60" in str(interrupted(config, 59, signal.SIGTERM))
    assert run_folder(config).status()["state"] == "finished"


def test_training_in_another_thread(tmp_path: Path) -> None:
    """Only the main thread may handle signals: elsewhere training does without."""
    runs: list[Run] = []
    thread = threading.Thread(target=lambda: runs.append(train(tiny(tmp_path))))
    thread.start()
    thread.join()
    assert runs[0].step == 60


# Kills: in the writing of a checkpoint's tensors or of its JSON, just after a file was renamed,
# before a step, and wherever it happens to be.
_EACH_KIND = {"tensors": 2, "json": 2, "renamed": 1, "step": 2}
_TWENTY = {"tensors": 4, "json": 4, "renamed": 3, "step": 4, "anywhere": 5}


def _only_run(folder: Path) -> RunFolder:
    (path,) = folder.iterdir()
    return RunFolder(path)


def _newest(folder: Path) -> Checkpoint:
    checkpoint, problems = newest_checkpoint(_only_run(folder).checkpoints)
    assert not problems
    assert checkpoint is not None
    return checkpoint


def _go_to(driven: Driven, kind: str, chance: random.Random) -> str:
    """Go on to a place of that kind: the first one or, by chance, the second."""
    if kind in ("step", "anywhere"):
        driven.until(lambda place: place.startswith("step"))
        for _ in range(chance.randrange(1, 5)):
            driven.grant(1)
            place = driven.until(lambda place: place.startswith("step"))
        return place
    prefix = "renamed" if kind == "renamed" else "writing"
    suffix = {"tensors": ".safetensors", "json": ".json"}.get(kind, "")
    for again in range(1 + chance.randrange(2)):
        if again:
            driven.grant(1)
        place = driven.until(
            lambda place: (
                place.startswith(prefix) and "checkpoints" in place and place.endswith(suffix)
            )
        )
    return place


def _kill_once(driven: Driven, kind: str, chance: random.Random) -> None:
    place = _go_to(driven, kind, chance)
    if kind == "anywhere":
        driven.grant(chance.randrange(1, 14))
        time.sleep(chance.uniform(0, 0.02))
    driven.kill()
    if kind in ("tensors", "json"):
        target = Path(place.removeprefix("writing "))
        left = target.parent.glob(f"{target.name}.*.partial")  # also by those killed before
        partial = max(left, key=lambda path: path.stat().st_mtime_ns)
        content = partial.read_bytes()
        # What a power failure leaves may be less than what was written.
        partial.write_bytes(content[: chance.choice((0, len(content) // 2, len(content)))])


@pytest.mark.parametrize("plan", [_EACH_KIND, pytest.param(_TWENTY, marks=pytest.mark.slow)])
def test_killed_again_and_again(plan: dict[str, int], driven: Driven, tmp_path: Path) -> None:
    chance = random.Random(7)
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    driven.start(whole, halting=False)
    assert driven.next() == "ended 0"
    kinds = list(Counter(plan).elements())
    chance.shuffle(kinds)
    after_a_step = 0
    for kind in kinds:
        driven.start(killed)
        _kill_once(driven, kind, chance)
        _, problems = newest_checkpoint(_only_run(killed).checkpoints)
        assert not problems, "what a kill leaves must not look damaged"
        after_a_step += sum(place.startswith("step") for place in driven.places) > 1
    assert 2 * after_a_step >= len(kinds)
    assert 0 < _newest(killed).step < 120
    driven.start(killed, halting=False)
    assert driven.next() == "ended 0"
    assert _newest(killed).step == _newest(whole).step == 120
    assert_same_bits(_newest(killed).tensors, _newest(whole).tensors)
    assert _only_run(killed).status()["state"] == "finished"


@pytest.mark.parametrize(("at", "file"), [("writing", "config.yaml"), ("renamed", "00000120.json")])
def test_killed_while_it_begins_or_before_it_says_finished(
    at: str, file: str, driven: Driven, tmp_path: Path
) -> None:
    """The run folder itself is half made; or the last checkpoint is there, and the status still
    says running: the next start puts it right."""
    driven.start(tmp_path)
    driven.until(lambda place: place.startswith(at) and place.endswith(file))
    driven.kill()
    driven.start(tmp_path, halting=False)
    assert driven.next() == "ended 0"
    assert _newest(tmp_path).step == 120
    assert torch.isfinite(_newest(tmp_path).weights()["read_out.weight"]).all()
    assert _only_run(tmp_path).status()["state"] == "finished"


_GROWTH = CurriculumConfig(
    dims=GrowthConfig(start=1, intervals=(14, 20)),
    points=GrowthConfig(start=3, intervals=(25,)),
    loops=GrowthConfig(inc=1, intervals=(16,)),
)
SLOW = pytest.mark.slow
_SHOWN = ("muon, factored", "jacobian", "growth", "text")  # between them all that a state holds
_VARIANTS: dict[str, dict[str, Any]] = {
    "adam": {"training": {"optimizer": "adam", "weight_decay": 0.1, "epsilon": 1e-6}},
    "muon, factored": {
        "training": {"optimizer": "muon"},
        "model": ModelConfig("looped", 2, 16, 2, 5, residual_scaling="factored"),
    },
    "jacobian": {"training": {"jacobian_penalty": 0.1, "shards": 2, "recompute": True}},
    "growth": {"curriculum": _GROWTH},
    "drawn": {"loops": LoopsConfig(4, 2, "half", "poisson_lognormal")},
    "distinct": {"task": TaskConfig("linear", dims=2, points=5, distinct_prompts=4)},
    "text": {
        "task": TaskConfig("language", dims=1, points=6),
        "model": ModelConfig("looped", 1, 16, 2, 6, block="flt", softcap=15.0),
        "training": {
            **{"optimizer": "muon", "embedding_rate": 0.02, "head_rate": 0.005},
            **{"embedding_dtype": "bfloat16", "ema_decay": 0.9},
        },
    },
    "standard": {"model": ModelConfig("standard", 2, 16, 2, 5, injection="none")},
}


def _variant(name: str, folder: Path) -> Config:
    changes = dict(_VARIANTS[name])
    return replace(tiny(folder, **changes.pop("training", {})), **changes)


@pytest.mark.parametrize(
    "name", [name if name in _SHOWN else pytest.param(name, marks=SLOW) for name in _VARIANTS]
)
def test_stopped_run_ends_as_undisturbed(name: str, tmp_path: Path) -> None:
    """One crash, which goes on from the last checkpoint, and one signal, which saves first."""
    whole, stopped = _variant(name, tmp_path / "whole"), _variant(name, tmp_path / "stopped")
    train(whole)
    crashed(stopped, 17)
    interrupted(stopped, 32)
    train(stopped)
    assert_same_bits(saved_tensors(stopped), saved_tensors(whole))


def test_interrupted_after_every_step(tmp_path: Path) -> None:
    """Saved and loaded again at each of its steps: whatever the state lacks would show."""
    settings: dict[str, Any] = {"steps": 12, "clip": 0.5, "warmup": 5, "weight_decay": 0.1}
    settings["optimizer"] = "muon"  # with AdamW beside it
    whole, stopped = tiny(tmp_path / "whole", **settings), tiny(tmp_path / "stopped", **settings)
    train(whole)
    for step in range(11):
        assert f"after step {step + 1};" in str(interrupted(stopped, step, signal.SIGTERM))
    run = train(stopped)
    assert_same_bits(saved_tensors(stopped), saved_tensors(whole))
    weights = {f"model.{name}": tensor for name, tensor in run.model.state_dict().items()}
    kept = saved_tensors(whole)
    assert_same_bits(weights, {name: kept[name] for name in weights})


def test_a_run_of_no_steps_is_finished_and_fresh(tmp_path: Path) -> None:
    config = tiny(tmp_path, steps=0)
    run = train(config)
    assert RunFolder(run.path).status()["state"] == "finished"
    fresh = build_model(config, run.task).state_dict()
    for weights in (run.model.state_dict(), load_run(run.path).model.state_dict()):
        assert weights.keys() == fresh.keys()
        assert all(torch.equal(weights[name], fresh[name]) for name in fresh)
