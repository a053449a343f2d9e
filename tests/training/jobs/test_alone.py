"""Training needs neither the configuration library nor wandb, and asks before it writes;
TensorBoard stands beside metrics.jsonl."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterable, Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from looplab import train_grid
from looplab.show.evaluate import evaluate
from looplab.training import train
from tests.conftest import printed
from tests.training.tiny import WORDS, interrupted, tiny

_ALONE = """
import sys
for name in ("wandb", "openml", "sklearn", "matplotlib"):
    sys.modules[name] = None
from pathlib import Path
from tests.training.tiny import tiny
from looplab.training import train
run = train(tiny(Path(sys.argv[1]), steps=3))
for name in ("sklearn", "matplotlib"):
    del sys.modules[name]
from looplab.evaluation.load import load_run
from looplab.tasks import Prompts
import torch
loaded = load_run(run.path)
prompts = Prompts(torch.ones(6, 4, 2), torch.zeros(6, 4))
assert loaded.step == 3
assert not loaded.model.training
assert loaded.model(prompts, loops=9, window=9).shape == (9, 6, 4)
assert torch.equal(loaded.model(prompts, 4, 1), run.model(prompts, 4, 1))
"""


def _wandb_records(path: Path) -> Iterator[Any]:
    """The records in a file of wandb: a log of LevelDB (its doc/log_format.md) after a mark of 7
    bytes, in which records are in pieces that do not cross blocks of 32 KiB."""
    record: Any = import_module("wandb.proto.wandb_internal_pb2").Record
    content = path.read_bytes()
    start, data = 7, b""
    while start < len(content):
        left = -start % 2**15
        if 0 < left < 7:  # no room for a piece's header: checksum, length, kind
            start += left
        length, kind = struct.unpack_from("<HB", content, start + 4)
        data += content[start + 7 : start + 7 + length]
        start += 7 + length
        if kind in (1, 4):  # whole, or the last piece
            yield record.FromString(data)
            data = b""


def _values(items: Iterable[Any]) -> dict[str, Any]:
    """Keys and values of a record."""
    return {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in items}


def test_training_and_loading_import_no_more_than_they_need(tmp_path: Path) -> None:
    """With the packages of the command line and of evaluation not to be had."""
    printed("-c", _ALONE, tmp_path)


def test_wandb_gets_what_metrics_get_and_the_final_evaluation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, undrawn: object
) -> None:
    """By the package itself: a run of a grid under its own name in the grid's group, so that a run
    that goes on is the same run there; errors at the largest k, and pictures, once."""
    for name in ("WANDB_CONFIG_DIR", "WANDB_CACHE_DIR", "WANDB_DATA_DIR"):
        monkeypatch.setenv(name, str(tmp_path / "wandb"))
    monkeypatch.setenv("WANDB_SILENT", "true")
    monkeypatch.delenv("WANDB_RUN_GROUP", raising=False)
    words = [word for word in WORDS if word != "training.steps=1"]
    words += ["training.steps=20", "training.log_every=5", f"folder={tmp_path / 'runs'}"]
    grid = train_grid("task=linear", "wandb=offline", "device=cpu", *words, jobs=1)
    assert "WANDB_RUN_GROUP" not in os.environ
    (path,) = (tmp_path / "runs").glob("linear-*")
    evaluate(path)  # is read, and goes nowhere again
    files = sorted(path.glob("wandb/offline-run-*/*.wandb"), key=lambda file: file.stat().st_mtime)
    logged = []
    for file in files:
        records = [*_wandb_records(file)]
        (about,) = (record.run for record in records if record.HasField("run"))
        assert about.run_id == about.display_name == path.name
        assert about.run_group == Path(grid["path"]).name
        assert _values(about.config.update)["task"]["name"] == "linear"
        logged.append([_values(each.history.item) for each in records if each.HasField("history")])
    training, (evaluation,) = logged
    metrics = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    assert [record["step"] for record in metrics] == [5, 10, 15, 20]
    for record, values in zip(metrics, training, strict=True):
        assert record.items() <= values.items()
        assert values["_step"] == record["step"]
    result = json.loads((path / "evaluation.json").read_text())["by_examples"]
    assert evaluation["_step"] == 20
    assert evaluation["evaluation/averaging"] == result["averaging"]["mean"][-1]
    picture = evaluation["figures/error_by_loop/path"]
    assert (files[1].parent / "files" / picture).is_file()


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
