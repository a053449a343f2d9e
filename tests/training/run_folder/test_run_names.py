"""The same settings and sources find the same run: what its name depends on, what an edit changes,
and what not."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from looplab.conf.schema import (
    Config,
    CurriculumConfig,
    EvaluationConfig,
    GrowthConfig,
    LoopsConfig,
    TaskConfig,
)
from looplab.evaluation.load import load_run
from looplab.evaluation.remarks import remarks
from looplab.tasks.table_rows import TEN
from looplab.training import train
from looplab.training.run_folder.run import environment, run_folder
from looplab.training.run_folder.sources import sources_of
from tests.conftest import times_of
from tests.training.tiny import crashed, saved_tensors, tiny

BASE = tiny(Path("runs"))


def _name(config: Config) -> str:
    return run_folder(config).path.name


def _training(**changes: Any) -> dict[str, Any]:
    return {"training": replace(BASE.training, **changes)}


def test_what_the_weights_do_not_depend_on() -> None:
    evaluation = EvaluationConfig(7, 8, 9, "auto", "state", 0.5, 11, ("lasso",), ("all",), 12)
    others: dict[str, Any] = {"evaluation": evaluation, "device": "auto", "backend": "compile"}
    others |= {"folder": "elsewhere", "wandb": "offline", "scale": "paper"}
    others |= _training(log_every=1, checkpoint_every=1, recompute=True)
    assert _name(replace(BASE, **others)) == _name(BASE)
    assert _name(replace(BASE, name="my-try")) == f"my-try-{_name(BASE)}"


DIFFERENT: list[dict[str, Any]] = [
    {"seed": 1},
    {"precision": "bf16"},
    {"loops": LoopsConfig(4, 3)},
    {"model": replace(BASE.model, n_layer=2)},
    {"model": replace(BASE.model, family="tied", injection="none")},
    {"task": replace(BASE.task, dims=3)},
    {"task": TaskConfig("sparse_linear", 2, 5)},
    {"task": TaskConfig("sparse_linear", 2, 5, settings={"sparsity": 2})},
    {"curriculum": CurriculumConfig(dims=GrowthConfig(start=1))},
    _training(steps=61),
    _training(shards=2),
]


def test_what_they_depend_on_gives_another_name() -> None:
    names = [_name(BASE)] + [_name(replace(BASE, **changes)) for changes in DIFFERENT]
    assert len(set(names)) == len(names)
    other_seed = _name(replace(BASE, seed=1))
    assert other_seed.split("-")[-1] == _name(BASE).split("-")[-1]


@pytest.mark.parametrize(
    ("name", "settings", "is_same"),
    [
        ("sparse_linear", {"sparsity": 3}, True),
        ("noisy_linear", {"renormalize": False, "noise_std": 1.0}, True),
        ("tables", {"tables": TEN, "data_dir": "elsewhere"}, True),
        ("tables", {"tables": list(TEN), "data_dir": "elsewhere"}, True),
        ("tables", {"tables": TEN[1:]}, False),
    ],
)
def test_a_setting_equal_to_its_default_is_as_not_given(
    name: str, settings: dict[str, Any], is_same: bool
) -> None:
    """So that a new setting, with a default that keeps what was, renames no old run."""
    plain = replace(BASE, task=TaskConfig(name, 2, 5))
    given = replace(BASE, task=TaskConfig(name, 2, 5, settings=settings))
    assert given != plain
    assert (_name(given) == _name(plain)) == is_same


def test_the_hash_does_not_move() -> None:
    """Runs made yesterday are found tomorrow: if this fails, old runs have lost their name."""
    assert _name(BASE) == "linear-looped-seed0-342f0e65"
    assert _name(Config()) == "sparse_linear-looped-seed0-44136fa3"


def test_a_finished_run_is_not_trained_again(tmp_path: Path) -> None:
    """Not even where another evaluation, device or log is asked for."""
    config = tiny(tmp_path)
    first = train(config)
    path = run_folder(config).path
    before = times_of(path, "**/*.safetensors")
    asked = replace(config, evaluation=EvaluationConfig(prompts=3), device="auto")
    for again in (config, replace(asked, training=replace(config.training, log_every=1))):
        run = train(again)
        assert (run.path, run.step, run.config) == (path, 60, again)
        assert not run.model.training
        for name, tensor in first.model.state_dict().items():
            assert tensor.equal(run.model.state_dict()[name])
    assert times_of(path, "**/*.safetensors") == before
    assert saved_tensors(config)


def test_all_files_of_a_room_count_and_kernels_for_triton_alone() -> None:
    found = sources_of("models")
    assert {"models/model.py", "models/loops/loop.py", "models/blocks/attention.py"} <= set(found)
    assert not any(path.startswith(("models/kernels", "tasks", "training")) for path in found)
    config = Config(task=TaskConfig("linear"))
    assert "models/kernels/mlp.py" in environment(config, "triton")["sources"]
    assert "models/kernels/mlp.py" not in environment(config)["sources"]


def test_what_was_trained_by_two_codes_stays_marked(
    tmp_path: Path, edit: Callable[[str], None]
) -> None:
    """Also for those who have the first code, or the second."""
    config, edited = tiny(tmp_path), "models/loops/loop.py"
    crashed(config, 25)
    edit(edited)
    run = train(config)
    assert any(edited in line for line in remarks(run))
    edit("")
    assert any(edited in line for line in remarks(load_run(run.path)))


def test_again_trains_anew_and_keeps_the_old(tmp_path: Path, edit: Callable[[str], None]) -> None:
    config = tiny(tmp_path, steps=20)
    first = train(config)
    weights = saved_tensors(config)
    edit("tasks/linear.py")
    assert any("tasks/linear.py" in line for line in remarks(train(config)))
    again = train(config, again=True)
    assert again.path == first.path
    assert not any("other code" in line for line in remarks(again))
    kept = load_run(first.path.with_name(first.path.name + "-before-1"))
    assert any("other code" in line for line in remarks(kept))
    edit("")
    assert all(bool((weights[f"model.{n}"] == t).all()) for n, t in kept.model.state_dict().items())
    train(config, again=True)
    assert first.path.with_name(first.path.name + "-before-2").exists()
