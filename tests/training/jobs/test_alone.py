"""Training needs neither the configuration library nor wandb, and asks before it writes;
TensorBoard stands beside metrics.jsonl."""

from __future__ import annotations

import json
import types
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from looplab.evaluation import evaluate
from looplab.training import train
from tests.conftest import Wandb, printed
from tests.training.tiny import interrupted, tiny

_ALONE = """
import sys
for name in ("wandb", "requests", "sklearn", "matplotlib"):
    sys.modules[name] = None
from pathlib import Path
from tests.training.tiny import tiny
from looplab.training import train
run = train(tiny(Path(sys.argv[1]), steps=3))
for name in ("sklearn", "matplotlib"):
    del sys.modules[name]
from looplab.evaluation import load_run
from looplab.tasks import Prompts
import torch
loaded = load_run(run.path)
prompts = Prompts(torch.ones(6, 4, 2), torch.zeros(6, 4))
assert loaded.step == 3
assert not loaded.model.training
assert loaded.model(prompts, loops=9, window=9).shape == (9, 6, 4)
assert torch.equal(loaded.model(prompts, 4, 1), run.model(prompts, 4, 1))
"""


class FakeWandb(types.ModuleType):
    """As much of wandb as is used; `calls` says how."""

    def __init__(self) -> None:
        super().__init__("wandb")
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.Image = Path
        self.errors = types.SimpleNamespace(Error=ConnectionRefusedError)

    def init(self, **settings: Any) -> FakeWandb:
        self.calls.append(("init", settings))
        return self

    def log(self, record: dict[str, Any], step: int) -> None:
        self.calls.append(("log", record | {"at": step}))

    def finish(self) -> None:
        self.calls.append(("finish", {}))


def test_training_and_loading_import_no_more_than_they_need(tmp_path: Path) -> None:
    """With the packages of the command line and of evaluation not to be had."""
    printed("-c", _ALONE, tmp_path)


def test_wandb_gets_what_metrics_get_and_the_final_evaluation(
    tmp_path: Path, wandb: Wandb, undrawn: object
) -> None:
    """Under the run's own name, so that a run that goes on is the same run there; errors at the
    largest k, and pictures, once, and what keeps them away is a line."""
    fake = FakeWandb()
    wandb(fake)
    run = train(replace(tiny(tmp_path), wandb="offline"))
    path = run.path
    kinds = [kind for kind, _ in fake.calls]
    assert kinds == ["init", *["log"] * 12, "finish"]
    settings = fake.calls[0][1]
    assert settings["mode"] == "offline"
    assert settings["id"] == settings["name"] == path.name
    assert settings["config"]["task"]["name"] == "linear"
    assert [record["at"] for kind, record in fake.calls if kind == "log"] == list(range(5, 65, 5))
    fake.calls.clear()
    for _ in range(2):
        result = evaluate(run, prompts=8)
    assert [kind for kind, _ in fake.calls] == ["init", "log", "finish"]
    logged = fake.calls[1][1]
    assert logged["at"] == run.step
    assert logged["evaluation/averaging"] == result["by_examples"]["averaging"]["mean"][-1]
    assert logged["figures/error_by_loop"] == run.path / "figures" / "error_by_loop.png"
    wandb(None)
    assert evaluate(run, prompts=4)["prompts"] == 4


def test_tensorboard_has_the_scalars_of_metrics_also_after_a_pause(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="tensorboard is not installed")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    config = replace(tiny(tmp_path), tensorboard=True)
    interrupted(config, config.training.steps // 2 - 1)
    path = train(config).path
    lines = (path / "metrics.jsonl").read_text().splitlines()
    steps = [json.loads(line)["step"] for line in lines]
    events = EventAccumulator(str(path / "tensorboard"))
    events.Reload()
    assert [event.step for event in events.Scalars("loss")] == steps
    mean = evaluate(path, prompts=8)["by_examples"]["model"]["mean"][-1]
    events.Reload()
    (event,) = events.Scalars("evaluation/model")
    assert (event.step, event.value) == (steps[-1], pytest.approx(mean))
    assert "figures/error_by_loop" in events.Tags()["images"]
