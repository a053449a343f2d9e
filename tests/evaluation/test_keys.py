"""What numbers are kept under: the code that measures them, and nothing that only shows them."""

import shutil
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from looplab.conf import imports
from looplab.conf.plugins import load_plugins
from looplab.evaluation.baselines.lasso import lasso
from looplab.evaluation.baselines.simple import averaging
from looplab.evaluation.evaluate_run import _evaluate
from looplab.evaluation.evaluator import Evaluator
from looplab.experiments import length
from looplab.openml_eval.scoring import solver_answers
from looplab.probing.probe import probe
from looplab.rooms import ROOMS
from looplab.tasks.linear import Linear
from looplab.training.run_folder import sources
from looplab.training.run_folder.sources import measured_by
from tests.conftest import HOME

MEASURED: dict[str, tuple[Any, ...]] = {
    "model": (Evaluator, Linear),
    "averaging": (Evaluator, Linear, averaging),
    "Lasso": (Evaluator, Linear, lasso),
    "evaluation": (_evaluate, Linear, averaging),
    "probes": (probe, Linear),
    "question": (length, Linear),
    "tables": (solver_answers,),
}


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A copy of the project's code that stands for it."""
    copy = tmp_path_factory.mktemp("checkout")
    for room in ROOMS:
        shutil.copytree(HOME / room, copy / room, ignore=lambda _, names: _not_code(names))
    with pytest.MonkeyPatch.context() as patch:
        for module in (imports, sources):
            patch.setattr(module, "HOME", copy)
        sources._files.cache_clear()
        yield copy
    sources._files.cache_clear()


def _not_code(names: list[str]) -> list[str]:
    return [name for name in names if "." in name and not name.endswith(".py")]


def changed_by(path: Path, old: str, new: str) -> set[str]:
    """Which of `MEASURED` have another key after an edit, which is undone."""
    before = {name: measured_by(*things) for name, things in MEASURED.items()}
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")
    sources._files.cache_clear()
    after = {name: measured_by(*things) for name, things in MEASURED.items()}
    path.write_text(text, encoding="utf-8")
    sources._files.cache_clear()
    return {name for name in MEASURED if before[name] != after[name]}


@pytest.mark.parametrize(
    ("file", "old", "new", "changed"),
    [
        # what only shows or says numbers
        ("show/style.py", "#0072B2", "#0072B3", ()),
        ("show/tables.py", "def document(", "def text_of(rows): ...\n\n\ndef document(", ()),
        ("show/page/page.py", "_WITH_FIGURES = 20", "_WITH_FIGURES = 30", ()),
        ("evaluation/errors.py", "@dataclass", "# A comment.\n@dataclass", ()),
        ("evaluation/bootstrap.py", "A mean over prompts", "The mean over prompts", ()),
        ("experiments/grid.py", "import re", "import os\nimport re", ()),
        ("conf/mistakes.py", "did you mean", "was it", ()),
        # the formula of a baseline
        ("evaluation/baselines/lasso.py", "alpha", "beta", ("Lasso",)),
        ("evaluation/baselines/simple.py", "examples", "pairs", ("averaging", "evaluation")),
        # a measure
        ("models/model.py", "def forward(", "def forwards(", MEASURED),
        ("experiments/length.py", "_LONGEST", "_FARTHEST", ("question",)),
    ],
)
def test_an_edit_measures_again_what_uses_it(
    file: str, old: str, new: str, changed: Iterable[str], checkout: Path
) -> None:
    assert changed_by(checkout / file, old, new) == {*changed}


def test_a_changed_measure_measures_again_what_imports_it(checkout: Path) -> None:
    errors = changed_by(checkout / "evaluation" / "errors.py", "halted_at", "stopped_at")
    assert {"model", "evaluation"} <= errors


def test_a_question_of_a_users_file_hangs_on_what_it_imports_of_the_project(
    tmp_path: Path,
) -> None:
    """Also by a public name."""
    path = tmp_path / "asks_errors.py"
    path.write_text(
        "from looplab import evaluation_prompts\nfrom looplab.evaluation import errors\n"
    )
    load_plugins([str(path)])
    found = measured_by(sys.modules["plugin:asks_errors"])
    assert {"asks_errors.py", "training/validation.py", "evaluation/errors.py"} <= found.keys()
    assert "evaluation/evaluator.py" not in found
