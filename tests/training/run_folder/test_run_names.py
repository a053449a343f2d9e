"""The same settings find the same run: what a run's name depends on, and what it does not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reloop.conf.schema import (
    Config,
    CurriculumConfig,
    EvaluationConfig,
    GrowthConfig,
    LoopsConfig,
    TaskConfig,
)
from reloop.tasks.tables import TEN
from reloop.training import train
from reloop.training.run_folder.run import run_folder
from tests.conftest import times_of
from tests.training.tiny import saved_tensors, tiny

BASE = tiny(Path("runs"))


def _name(config: Config) -> str:
    return run_folder(config).path.name


def _training(**changes: Any) -> dict[str, Any]:
    return {"training": replace(BASE.training, **changes)}


@pytest.mark.parametrize(
    "changes",
    [
        {
            "evaluation": EvaluationConfig(
                7, 8, 9, "auto", "state", 0.5, 11, ("lasso",), ("all",), 12
            )
        },
        {"device": "auto"},
        {"backend": "compile"},
        {"folder": "elsewhere"},
        {"wandb": "offline"},
        {"scale": "paper"},
        _training(log_every=1),
        _training(checkpoint_every=1),
        _training(on_divergence="rollback"),
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_what_the_weights_do_not_depend_on(changes: dict[str, Any]) -> None:
    assert _name(replace(BASE, **changes)) == _name(BASE)


DIFFERENT: list[dict[str, Any]] = [
    {"seed": 1},
    {"precision": "bf16"},
    {"loops": LoopsConfig(4, 3)},
    {"loops": LoopsConfig(5, 2)},
    {"model": replace(BASE.model, n_layer=2)},
    {"model": replace(BASE.model, injection="multiply")},
    {"model": replace(BASE.model, family="tied", injection="none")},
    {"task": replace(BASE.task, dims=3)},
    {"task": replace(BASE.task, distinct_prompts=3)},
    {"task": TaskConfig("sparse_linear", 2, 5)},
    {"task": TaskConfig("sparse_linear", 2, 5, settings={"sparsity": 2})},
    {"task": TaskConfig("noisy_linear", 2, 5)},
    {"task": TaskConfig("noisy_linear", 2, 5, settings={"noise_std": 0.5})},
    {"curriculum": CurriculumConfig(dims=GrowthConfig(start=1))},
    {"curriculum": CurriculumConfig(points=GrowthConfig(start=1, inc=2))},
    _training(steps=61),
    _training(batch_size=16),
    _training(learning_rate=1e-4),
    _training(beta1=0.8),
    _training(weight_decay=0.1),
    _training(clip=1.0),
    _training(warmup=3),
    _training(decay=0.5),
    _training(shards=2),
]


def test_what_they_depend_on_gives_another_name() -> None:
    names = [_name(BASE)] + [_name(replace(BASE, **changes)) for changes in DIFFERENT]
    assert len(set(names)) == len(names)


def test_a_setting_equal_to_its_default_is_as_not_given() -> None:
    """So that a new setting, with a default that keeps what was, renames no old run."""
    sparse = replace(BASE, task=TaskConfig("sparse_linear", 2, 5))
    given = replace(BASE, task=TaskConfig("sparse_linear", 2, 5, settings={"sparsity": 3}))
    assert _name(given) == _name(sparse)
    assert given != sparse
    noisy = replace(BASE, task=TaskConfig("noisy_linear", 2, 5))
    settings = {"renormalize": False, "noise_std": 1.0}
    assert _name(replace(noisy, task=TaskConfig("noisy_linear", 2, 5, 0, settings))) == _name(noisy)
    tables = replace(BASE, task=TaskConfig("tables", 2, 5))
    for ten in (TEN, list(TEN)):
        task = TaskConfig("tables", 2, 5, settings={"tables": ten, "data_dir": "elsewhere"})
        assert _name(replace(tables, task=task)) == _name(tables)
    fewer = TaskConfig("tables", 2, 5, settings={"tables": TEN[1:]})
    assert _name(replace(tables, task=fewer)) != _name(tables)


def test_the_name_says_task_model_and_seed() -> None:
    name = _name(replace(BASE, seed=12))
    assert name.startswith("linear-looped-seed12-")
    assert len(name.removeprefix("linear-looped-seed12-")) == 8
    tied = replace(BASE, model=replace(BASE.model, family="tied", injection="none"))
    assert _name(tied).startswith("linear-tied-seed0-")
    assert run_folder(BASE).path.parent == Path("runs")


def test_seeds_of_one_setting_share_its_hash() -> None:
    assert _name(replace(BASE, seed=1)).split("-")[-1] == _name(BASE).split("-")[-1]


def test_the_hash_does_not_move() -> None:
    """Runs made yesterday are found tomorrow: if this fails, old runs have lost their name."""
    assert _name(BASE) == "linear-looped-seed0-342f0e65"
    assert _name(Config()) == "sparse_linear-looped-seed0-44136fa3"


def test_a_finished_run_is_not_trained_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not even where another evaluation, device or log is asked for."""
    config = tiny(tmp_path)
    first = train(config)
    path = run_folder(config).path
    before = times_of(path, "**/*.safetensors")
    asked = replace(config, evaluation=EvaluationConfig(prompts=3), device="auto")
    capsys.readouterr()
    for again in (config, replace(asked, training=replace(config.training, log_every=1))):
        run = train(again)
        assert (run.path, run.step, run.config) == (path, 60, again)
        assert not run.model.training
        for name, tensor in first.model.state_dict().items():
            assert tensor.equal(run.model.state_dict()[name])
    assert "step " not in capsys.readouterr().out
    assert times_of(path, "**/*.safetensors") == before
    assert saved_tensors(config)
