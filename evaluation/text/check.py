"""What an evaluation needs beside the run, looked at before the training that it comes after.

check_evaluation(build_task(config), config.evaluation)
"""

from __future__ import annotations

from pathlib import Path

from reloop.conf.schema import EvaluationConfig
from reloop.tasks import Task
from reloop.tasks.language import Language
from reloop.tasks.language.documents import QUESTIONS, eval_files, read_documents

from ..measure import baseline_names, named_solvers
from .questions import read_questions
from .scores import blocks


def check_evaluation(task: Task, settings: EvaluationConfig, points: int) -> None:
    """Raises ConfigError for a solver that the task has not, and for a text of `task.eval` that is
    shorter than `points` tokens, or a file there that cannot be read."""
    for name in baseline_names(task, settings):
        named_solvers(name, task)
    if isinstance(task, Language):
        for path in eval_files(task.eval):
            _check_file(task, path, points)


def _check_file(task: Language, path: Path, points: int) -> None:
    if path.name.endswith(QUESTIONS):
        read_questions(path)
        return
    documents = read_documents(str(path), task.column, "task.eval")
    blocks(documents, task.tokenizer, points, points, path.name)
