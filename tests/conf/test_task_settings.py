"""A task's own settings have their types wherever they come from; other names are understood."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from reloop.conf.aliases import resolve_alias
from reloop.conf.build import config_from_mapping, config_to_mapping, flatten
from reloop.conf.checks.config import check_config
from reloop.conf.compose import commands
from reloop.conf.mistakes import ConfigError
from reloop.conf.schema import Config, TaskConfig


def mapping(task: str, **settings: Any) -> dict[str, Any]:
    return {"task": {"name": task, "settings": settings}}


@pytest.mark.parametrize(
    ("task", "settings", "said"),
    [
        ("sparse_linear", {"sparsity": 2.5}, r"task\.sparsity must be a whole number, got 2\.5"),
        ("sparse_linear", {"sparsity": "2"}, r"task\.sparsity must be a whole number, got '2'"),
        ("sparse_linear", {"sparsty": 2}, r"task\.sparsty is not .*did you mean 'sparsity'"),
        ("linear", {"sparsity": 2}, r"task\.sparsity is not a setting of task=linear, which has"),
        ("noisy_linear", {"renormalize": 1}, r"task\.renormalize must be true or false, got 1"),
        ("tables", {"tables": [1, "wind"]}, r"task\.tables must be a name, got 1"),
        ("tables", {"data_dir": ""}, r"task\.data_dir must name a file or folder"),
    ],
)
def test_of_a_config_yaml_as_of_the_command_line(
    task: str, settings: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        config_from_mapping(mapping(task, **settings))
    with pytest.raises(ConfigError, match=said):
        check_config(Config(task=TaskConfig(task, settings=settings)))


def test_values_become_what_the_command_line_makes_of_them() -> None:
    read = config_from_mapping(mapping("noisy_linear", noise_std=1)).task.settings
    assert read == {"noise_std": 1.0}
    assert isinstance(read["noise_std"], float)
    (given,) = commands(["task=tables"])
    text = yaml.safe_dump(config_to_mapping(given.config))
    assert config_from_mapping(yaml.safe_load(text)) == given.config


def test_a_task_of_somebody_else_keeps_what_it_is_given() -> None:
    settings = {"degree": 3, "signs": [1, -1]}
    assert config_from_mapping(mapping("polynomial", **settings)).task.settings == settings


@pytest.mark.parametrize("settings", [3, [1], "sparsity", None])
def test_settings_are_a_group(settings: Any) -> None:
    with pytest.raises(ConfigError, match=r"task\.settings must be a group of settings"):
        config_from_mapping({"task": {"name": "linear", "settings": settings}})


def test_another_name_means_the_setting_of_its_own_group_first() -> None:
    known = [*flatten(config_to_mapping(Config())), "task.hidden", "task", "model", "scale"]
    assert resolve_alias("lr", known) == "training.learning_rate"
    assert resolve_alias("seed", known) == "seed"
    assert resolve_alias("evaluation.random_seed", known) == "evaluation.seed"
    assert resolve_alias("evaluation.bs", known) == "evaluation.batch_size"
    assert resolve_alias("hidden", known) == "task.hidden"
    assert resolve_alias("model.hidden", known) == "model.n_embd"
    assert resolve_alias("t", known) == "loops.T"
    assert resolve_alias("zzz", known) is None


def test_every_other_name_is_of_a_setting_there_is() -> None:
    from reloop.conf.aliases import _NAMES
    from reloop.conf.checks.config import own_settings, task_names
    from reloop.experiments.iso_depth.settings import IsoDepthSettings
    from reloop.experiments.stability.settings import StabilitySettings
    from reloop.openml_eval.settings import RunSettings
    from reloop.probing.settings import ProbingSettings

    known = {*flatten(config_to_mapping(Config())), "task", "model"}
    known |= {f"task.{key}" for task in task_names() for key in own_settings(task) or {}}
    for cls in (IsoDepthSettings, RunSettings, ProbingSettings, StabilitySettings):
        known |= set(cls.__dataclass_fields__)
    assert {name for names in _NAMES for name in names} <= known


def test_a_folder_named_nothing_is_refused_from_python(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="folder must name a file or folder, got ''"):
        check_config(Config(folder=""))
    check_config(Config(folder=str(tmp_path)))
