"""No change moves the golden runs' numbers without a line in the log that says why."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from looplab.conf.schema import Config
from looplab.conf.setting import all_settings, names_of
from tests.conftest import HOME, printed
from tests.golden import claims, claims_page, commands, predictions
from tests.golden.__main__ import STORED
from tests.golden.configurations import GOLDEN, config_of

# Settings that decide where and how numbers are computed, shown or kept, not which they are; and
# values that no machine without a GPU, or only some processors, can repeat to these digits; auto is
# fp32 on a CPU.
_APART = ("evaluation.", "figures.", "tables.", "wandb", "backend")
# bfloat16 rounds otherwise on other processors.
_ELSEWHERE = {
    "precision": ("fp32", "tf32", "bf16", "mixed"),
    "training.embedding_dtype": ("bfloat16",),
}


def test_the_numbers_are_the_frozen_ones() -> None:
    """All in one test: they are trained in one process."""
    found = json.loads(printed("-m", "tests.golden"))
    stored = json.loads(STORED.read_text(encoding="utf-8"))
    assert [*found] == [*stored] == [*GOLDEN]
    for name, frozen in stored.items():
        ours = found[name]
        assert ours["losses"] == pytest.approx(frozen["losses"], rel=1e-5), name
        for kind in ("last", "averaged"):
            norms, numbers = frozen[kind]["norms"], frozen[kind]["numbers"]
            assert ours[kind]["norms"] == pytest.approx(norms, rel=1e-4, abs=1e-7), name
            near = pytest.approx(numbers, rel=1e-4, abs=1e-4 * max(map(abs, numbers)))
            assert ours[kind]["numbers"] == near, name


def test_words_compose_to_the_frozen_settings_and_names() -> None:
    """89 commands, and the more than a thousand runs of the experiments. In a process of its own:
    tests register tasks in this one."""
    assert len(json.loads(commands.STORED.read_text(encoding="utf-8"))["commands"]) == 89
    assert printed("-m", "tests.golden.commands").startswith("every command composes to the frozen")


def test_every_name_of_the_schema_is_in_a_golden_run(tmp_path: Path) -> None:
    """And so is every task."""
    configs = [config_of(name, tmp_path) for name in GOLDEN]

    def used(key: str) -> Iterator[Any]:
        for config in configs:
            value: Any = config
            for part in key.split("."):
                value = getattr(value, part)
            yield value

    for key, item in all_settings(Config).items():
        names = {*names_of(item.hint)} - {*_ELSEWHERE.get(key, ())}
        if names and not key.startswith(_APART):
            assert names <= {*used(key)}, key
    tasks = {path.stem for path in (HOME / "conf" / "task").glob("*.yaml")}
    assert tasks - {"tables"} == {config.task.name for config in configs}


def test_shipped_and_imported_weights_predict_the_frozen_numbers() -> None:
    """Evaluations, estimators on three tables, six checkpoints of the reference codes."""
    stored = json.loads(predictions.STORED.read_text(encoding="utf-8"))
    found = predictions.predictions()
    assert [*found] == [*stored]
    for name, numbers in stored.items():
        near = pytest.approx(numbers, rel=1e-5, abs=1e-5 * max(map(abs, numbers)))
        assert found[name] == near, name


def test_the_frozen_claims_have_the_same_numbers_from_the_frozen_errors() -> None:
    """To 1e-9, without training; and so have the verdicts."""
    assert claims.differences() == []


def test_every_page_says_how_the_claims_stand_today() -> None:
    """And every claim of the suite stands somewhere: python -m tests.golden.claims_page."""
    for path, text in claims_page.pages().items():
        assert path.read_text(encoding="utf-8") == text, path.name
