"""Words become checked settings, of a small command and of a task, or one line that names the
key; what settings are called in words."""

from dataclasses import MISSING, dataclass
from typing import Any, Literal

import pytest
import yaml

from looplab.conf.build import config_from_mapping, config_to_mapping
from looplab.conf.checks.config import check_config
from looplab.conf.compose import commands
from looplab.conf.in_words import in_words, labels_of_settings
from looplab.conf.mistakes import ConfigError
from looplab.conf.schema import Config, TaskConfig
from looplab.conf.setting import setting
from looplab.conf.words import settings_from_words

PATHS = (
    *("zoë/é ü", "a (1)", "epoch=3", "R&D", "x[0]", "{a}", "#1", "results #2", "2024", "1e3"),
    *("null", "~x", "C:\\x\\", "it's", "'", 'say "a"', "$HOME", "100%", "a;b", "!x", "*?", "a:b"),
)


@dataclass(frozen=True)
class Settings:
    """One of each kind."""

    run: str = setting(MISSING, "a text")
    loops: int | None = setting(None, "a number or none")
    rate: float = setting(0.1, "a number")
    targets: tuple[str, ...] = setting((), "several texts")
    how: Literal["paper", "reference"] = setting("paper", "a name")


def test_words_are_typed_and_the_rest_keeps_its_default() -> None:
    assert settings_from_words(Settings, ["run=a/b{2}_c=d"]) == Settings("a/b{2}_c=d")
    words = ["run=a", "loops=30", "rate=1e-3", "targets=[x,y]", "how=reference"]
    assert settings_from_words(Settings, words) == Settings("a", 30, 0.001, ("x", "y"), "reference")
    assert settings_from_words(Settings, ["run=a", "loops=null", "targets=x"]).targets == ("x",)


@pytest.mark.parametrize("text", ["1e3", "1_000", "1000.0", "'1000'", '"1e3"', "+1000"])
def test_a_whole_number_may_be_written_in_several_ways(text: str) -> None:
    assert settings_from_words(Settings, ["run=a", f"loops={text}"]).loops == 1000


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], "run must be given"),
        (["run=''"], "run must name something, got ''"),
        (["run=a", "targets=[x"], r"'targets=\[x' cannot be read; lists are key=1,2"),
        (["run=a", "loops={x"], "cannot be read"),
        (["run=a", "loops.b=3"], "loops must be a whole number, got {'b': 3}"),
        (["run=1", "run.x=2"], r"run\.x is not a setting; run is one"),
        (["run=a", "how.x=paper"], "how cannot be {'x': 'paper'}; expected one of paper, ref"),
    ],
)
def test_a_mistake_is_one_line(words: list[str], expected: str) -> None:
    with pytest.raises(ConfigError, match=expected) as mistake:
        settings_from_words(Settings, words)
    assert "\n" not in str(mistake.value)


@pytest.mark.parametrize("path", PATHS)
def test_a_text_is_taken_as_typed(path: str) -> None:
    """In a small command and in run.py, quoted or not, alone and among others."""
    quoted = f"'{path}'" if "'" not in path else f'"{path}"'
    for text in (path, quoted):
        assert settings_from_words(Settings, [f"run={text}"]).run == path
        assert Config.of(f"folder={text}").folder == path
        assert Config.of("task=language", f"task.text={text}").task.settings["text"] == path
    assert settings_from_words(Settings, ["run=a", f"targets=[{quoted},b]"]).targets == (path, "b")
    words = ["task=language", f"task.text={quoted},b", f"folder={text}, c"]
    grid = [each.config for each in commands(words, multirun=True)]
    assert [each.task.settings["text"] for each in grid] == [path, "b"]
    assert {each.folder for each in grid} == {f"{text}, c"}
    words = ["run=a", f"targets={quoted}, y z"]
    assert settings_from_words(Settings, words).targets == (path, "y z")


def test_a_tilde_is_the_home_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/zoë")
    for text in ("~/x", "~"):
        expected = text.replace("~", "/home/zoë")
        assert settings_from_words(Settings, [f"run={text}", f"targets={text}"]) == Settings(
            expected, targets=(expected,)
        )
        assert Config.of(f"folder={text}").folder == expected


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


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("model.injection", "none", "without injection"),
        ("loops.b", "20", "b = 20"),
        ("model.n_layer", 1, "1 layer"),
        ("training.steps", 500_000, "500,000 steps"),
        ("training.learning_rate", "1e-3", "rate 0.001"),
        ("training.recompute", True, "with recompute"),
        ("curriculum.dims.start", 5, "dims start = 5"),
    ],
)
def test_a_setting_is_said_the_same_typed_or_configured(key: str, value: Any, words: str) -> None:
    assert in_words(key, value) == words


def test_labels_have_a_setting_that_the_first_run_lacks() -> None:
    """As a user's task has one beside runs of other tasks."""
    linear: dict[str, Any] = {"model.family": "looped", "task.name": "linear"}
    waves: dict[str, Any] = {"model.family": "looped", "task.name": "waves"}
    settings = [
        linear,
        waves | {"task.settings.frequency": 1},
        waves | {"task.settings.frequency": 2},
    ]
    assert labels_of_settings(settings) == [
        "linear",
        "waves, frequency = 1",
        "waves, frequency = 2",
    ]
