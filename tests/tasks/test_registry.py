"""Tasks by name: what is known, and what is said about what is not."""

from dataclasses import fields
from typing import Any, get_args

import pytest
import yaml

from looplab.conf.schema import Baseline
from looplab.tasks import make_task, task_class
from looplab.tasks.task import _REGISTRY
from tests.tasks.conftest import FOLDER

KNOWN_BASELINES = set(get_args(Baseline))


def test_a_task_is_registered_under_the_name_of_its_file() -> None:
    own = {name for name, cls in _REGISTRY.items() if cls.__module__.startswith("looplab.tasks.")}
    assert {path.stem for path in FOLDER.glob("*.yaml")} == own


def test_the_file_names_every_setting_and_its_default(any_name: str) -> None:
    written = yaml.safe_load((FOLDER / f"{any_name}.yaml").read_text())
    own = {f.name: f.default for f in fields(task_class(any_name))}
    del own["dims"], own["distinct_prompts"], own["distinct_functions"]
    plain = {key: list(value) if isinstance(value, tuple) else value for key, value in own.items()}
    assert written == {"name": any_name} | plain


def test_a_task_says_how_it_is_judged(any_name: str) -> None:
    task = make_task(any_name, dims=5)
    assert task.divisor > 0
    losses = (("squared_error", 0, False), ("cross_entropy", 2, False), ("next_token", 0, True))
    assert (task.loss, task.classes, task.is_text) in losses
    assert set(task.baselines) <= KNOWN_BASELINES


def test_settings_reach_the_task() -> None:
    task = make_task("sparse_linear", 9, distinct_prompts=4, settings={"sparsity": 2})
    finite = {"distinct_prompts": 4, "distinct_functions": 0}
    assert vars(task) == {"dims": 9, **finite, "sparsity": 2}
    endless = {"distinct_prompts": 0, "distinct_functions": 0}
    assert vars(make_task("sparse_linear", 9)) == {"dims": 9, **endless, "sparsity": 3}


@pytest.mark.parametrize(
    ("wrong", "right"),
    [("sparse_liner", "sparse_linear"), ("tree_decision", "decision_tree"), ("zzz", "one of")],
)
def test_an_unknown_task_is_answered_with_the_nearest(wrong: str, right: str) -> None:
    for call in (lambda: task_class(wrong), lambda: make_task(wrong, dims=5)):
        with pytest.raises(ValueError, match=rf"unknown task '{wrong}'.*{right}"):
            call()


@pytest.mark.parametrize(
    ("task", "setting", "value"),
    [
        ("sparse_linear", "sparsity", 0),
        ("decision_tree", "depth", 0),
        ("relu_network", "hidden", 0),
        ("noisy_linear", "noise_std", -0.1),
        ("noisy_linear", "noise_std", float("nan")),
        ("noisy_linear", "noise_std", float("inf")),
        ("linear", "dims", 0),
        ("linear", "distinct_prompts", -1),
    ],
)
def test_a_value_out_of_range_is_refused_by_name(task: str, setting: str, value: Any) -> None:
    with pytest.raises(ValueError, match=rf"^{setting} must be at least"):
        task_class(task)(**{"dims": 5, setting: value})
