"""Tasks by name: what is known, and what is said about what is not."""

from dataclasses import fields

import pytest
import yaml

from looplab.tasks import make_task, task_class
from looplab.tasks.task import _REGISTRY
from tests.tasks.conftest import FOLDER, NAMES


def test_a_task_is_registered_under_the_name_of_its_file() -> None:
    own = {name for name, cls in _REGISTRY.items() if cls.__module__.startswith("looplab.tasks.")}
    assert {path.stem for path in FOLDER.glob("*.yaml")} == own


@pytest.mark.parametrize("task", NAMES)
def test_the_file_names_every_setting_and_its_default(task: str) -> None:
    written = yaml.safe_load((FOLDER / f"{task}.yaml").read_text())
    own = {f.name: f.default for f in fields(task_class(task))}
    del own["dims"], own["distinct_prompts"], own["distinct_functions"]
    plain = {key: list(value) if isinstance(value, tuple) else value for key, value in own.items()}
    assert written == {"name": task} | plain


def test_an_unknown_task_is_answered_with_the_nearest() -> None:
    with pytest.raises(ValueError, match=r"unknown task 'sparse_liner'.*'sparse_linear'"):
        make_task("sparse_liner", dims=5)
