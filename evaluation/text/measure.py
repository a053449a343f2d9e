"""All that one evaluation measures of a language model: the held-out text, and the texts and
questions of `task.eval`."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

import torch
from torch import Tensor

from reloop.conf.mistakes import ConfigError
from reloop.models.flops import pass_costs
from reloop.tasks import Prompts
from reloop.tasks.language import Language
from reloop.tasks.language.documents import QUESTIONS, eval_files, read_documents
from reloop.training.assemble import build_curriculum, trained_loops
from reloop.training.run_folder.run import Run

from ..cache import digest
from ..measure import Measure
from .questions import asked, judge, questions_result, read_questions
from .results import LanguageResult, QuestionsResult, Size, TextResult
from .scores import blocks, nats_by_loop, text_result

_MOST = 1 << 62  # tokens


def measure_language(measure: Measure) -> LanguageResult:
    """Score every text and answer every question, at 1 to `evaluation.max_loops` loops. Raises
    ConfigError for a file that cannot be read."""
    task = measure.task
    assert isinstance(task, Language)
    files = eval_files(task.eval)
    texts = {"held_out": _text(measure, task, "held_out", task.corpus.texts["held_out"])}
    texts |= {
        path.name: _text(measure, task, path.name, read_documents(str(path), task.column))
        for path in files
        if not path.name.endswith(QUESTIONS)
    }
    questions = {
        path.name: _questions(measure, task, path)
        for path in files
        if path.name.endswith(QUESTIONS)
    }
    return {"size": _size(measure.run), "texts": texts, "questions": questions}


def _size(run: Run) -> Size:
    model, tokens = run.model, run.config.task.points
    backbone, b = model.backbone_parameters(), trained_loops(run.config)
    last = build_curriculum(run.config, run.task)(max(run.config.training.steps - 1, 0))
    costs = pass_costs(model, tokens)
    single = model.spec.n_layer if model.spec.family == "standard" else 1
    return {
        "backbone": backbone,
        "embedding": sum(p.numel() for p in model.parameters()) - backbone,
        "flops": costs.of_step(b, min(last.grad_loops, b)) / tokens,
        "flops_of_one_loop": costs.of_step(single, single) / tokens,
    }


def digests(files: Sequence[Path]) -> dict[str, str]:
    """The sha256 of files, by name. Raises ConfigError for one that cannot be read."""
    try:
        return {path.name: sha256(path.read_bytes()).hexdigest() for path in files}
    except OSError as error:
        raise ConfigError("task.eval", f"cannot be read: {error}") from None


def _text(measure: Measure, task: Language, name: str, documents: Sequence[str]) -> TextResult:
    settings, tokenizer = measure.settings, task.tokenizer
    length = measure.run.config.task.points
    prompts = blocks(documents, tokenizer, length, settings.tokens or _MOST, name)
    counted = torch.from_numpy(tokenizer.lengths() > 0)[prompts.ys]
    arrays = measure.rows(
        f"text-{name}",
        {"prompts": digest(prompts.xs, prompts.ys), "loops": _loops(measure)},
        len(prompts),
        lambda rows: nats_by_loop(
            measure.device_model(), prompts[rows], _loops(measure), counted[rows]
        ),
        ("reloop.evaluation.text.scores",),
    )
    return text_result(arrays["nats"], prompts, tokenizer, settings)


def _questions(measure: Measure, task: Language, path: Path) -> QuestionsResult:
    settings = measure.settings
    length = measure.run.config.model.n_positions
    sheet = asked(read_questions(path), task.tokenizer, length, settings)

    def part(rows: slice) -> tuple[Prompts, Tensor]:
        judged = sheet.judged[rows]
        longest = int(judged.any(0).nonzero().max()) + 1  # no token after it is judged
        prompts = sheet.prompts[rows]
        return Prompts(prompts.xs[:, :longest], prompts.ys[:, :longest]), judged[:, :longest]

    arrays = measure.rows(
        f"questions-{path.stem}",
        {
            "prompts": digest(sheet.prompts.xs, sheet.prompts.ys, sheet.judged),
            "loops": _loops(measure),
        },
        len(sheet.prompts),
        lambda rows: judge(measure.device_model(), *part(rows), _loops(measure)),
        ("reloop.evaluation.text.questions",),
    )
    return questions_result(sheet, arrays, settings)


def _loops(measure: Measure) -> int:
    assert measure.settings.max_loops is not None
    return measure.settings.max_loops
