"""CORE, the mean centred accuracy over the 22 tasks of DCLM (arXiv 2406.11794), by the rules of
nanochat's core_eval.py.

print(core_table(*core(language_model(load_run("runs/NAME")), Path("eval_bundle"))))
"""

import csv
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import yaml
from tqdm import tqdm

from looplab.conf.mistakes import ConfigError, one_line
from looplab.tasks.language.tokens import Tokenizer

from .bootstrap import Floats, Interval, bootstrap, resampled_means
from .text.language_model import LanguageModel, Pair, Score

_ORDER = 1337  # the seed of the order of questions
_SHOTS = 1234  # the seed of each question's examples, but for its number
_RESAMPLES = 1000


class Question(NamedTuple):
    """A question's texts, one for each answer, in two parts: what stands before, and the end.
    `gold` is the right one."""

    texts: Sequence[tuple[str, str]]
    gold: int


@dataclass(frozen=True)
class _Task:
    """A task of the bundle: `shots` questions with their answers stand before each of its own."""

    label: str
    kind: str
    shots: int
    chance: float  # the accuracy of guessing
    questions: Sequence[Question]


class CoreScore(NamedTuple):
    """Of some questions the accuracy, that of guessing, and the centred one with its 90 % interval
    over questions. The centred accuracy is 0 for guessing and 1 for all right. `cut` texts were
    longer than the model's positions."""

    questions: int
    cut: int
    accuracy: float
    chance: float
    centred: Interval


def core(
    model: LanguageModel, bundle: Path, most: int | None = None
) -> tuple[dict[str, CoreScore], Interval]:
    """The results by task, of its first `most` questions (where not given, all), and CORE.

    The bundle has core.yaml, eval_meta_data.csv and eval_data/. Raises ConfigError, which names it,
    where one is absent or has another form.
    """
    try:
        tasks = _tasks(bundle, most)
    except (OSError, ValueError, TypeError, KeyError, yaml.YAMLError) as error:
        problem = f"has no {error}" if isinstance(error, KeyError) else one_line(error)
        raise ConfigError("bundle", f"cannot be read: {bundle}: {problem}") from None
    results = dict[str, CoreScore]()
    samples = list[Floats]()
    for seed, task in enumerate(tasks):
        right = np.zeros(len(task.questions))
        cut = 0
        for index, question in enumerate(tqdm(task.questions, task.label, disable=None)):
            examples = _examples(task.questions, index, task.shots)
            scores = model.score(_pairs(question, task.kind, examples, model.tokenizer))
            right[index] = _is_right(scores, question.gold)
            cut += sum(score.cut for score in scores)
        # One number a question, whose mean is the centred accuracy: questions are resampled.
        centred = (right - task.chance) / (1 - task.chance)
        interval = bootstrap(centred, _RESAMPLES, seed)
        accuracy = float(right.mean())
        results[task.label] = CoreScore(len(right), cut, accuracy, task.chance, interval)
        samples.append(resampled_means(centred, _RESAMPLES, seed))
    # Tasks are resampled each for itself: CORE's resamples are the means of theirs.
    mean = np.asarray(np.mean([result.centred.mean for result in results.values()]))
    low, high = np.percentile(np.mean(samples, axis=0), (5, 95))
    return results, Interval(mean, low, high)


def _tasks(bundle: Path, most: int | None) -> list[_Task]:
    """The tasks of a bundle, each with its first `most` questions."""
    facts = csv.DictReader(_text(bundle / "eval_meta_data.csv").split("\n"))
    chances = {row["Eval Task"]: float(row["Random baseline"]) / 100 for row in facts}
    tasks = []
    for entry in yaml.safe_load(_text(bundle / "core.yaml"))["icl_tasks"]:
        label = entry["label"]
        kind = entry["icl_task_type"]
        delimiter = entry.get("continuation_delimiter", " ")
        questions = _questions(bundle / "eval_data" / entry["dataset_uri"], kind, delimiter)
        shots = entry["num_fewshot"][0]
        tasks.append(_Task(label, kind, shots, chances[label], questions[:most]))
    return tasks


def _pairs(question: Question, kind: str, examples: str, tokenizer: Tokenizer) -> list[Pair]:
    """The tokens of each answer's text after the examples, parted before those that are judged:
    after what all choices share, from where all options end alike, or after the context."""
    rows = [tokenizer.encode(f"{examples}{a}{b}").tolist() for a, b in question.texts]
    if kind == "schema":
        # Options are read backwards: `count` is how many tokens all of them end with.
        count = max(_shared([row[::-1] for row in rows]), 1)
        return [(row[:-count], row[-count:]) for row in rows]
    alike = list(rows)
    if kind == "language_modeling":
        context = f"{examples}{question.texts[0][0]}".rstrip()
        alike.append(tokenizer.encode(context).tolist())
    # One choice may begin another: something of each is judged, from the same place on.
    begin = min(_shared(alike), min(map(len, rows)) - 1)
    return [(row[:begin], row[begin:]) for row in rows]


def _examples(questions: Sequence[Question], index: int, shots: int) -> str:
    """Other questions with their answers, to stand before question `index`."""
    others = list(questions)
    del others[index]
    # Python's own generator and nanochat's seeds, so that the examples are the same as there.
    chosen = random.Random(_SHOTS + index).sample(others, min(shots, len(others)))
    text = ""
    for question in chosen:
        before, end = question.texts[question.gold]
        text += f"{before}{end}\n\n"
    return text


def _questions(path: Path, kind: str, delimiter: str) -> list[Question]:
    """The questions of a task's file, shuffled."""
    questions = list[Question]()
    # Not splitlines: a text in JSON may have other line breaks than the file.
    for values in map(json.loads, filter(str.strip, _text(path).split("\n"))):
        if kind == "multiple_choice":
            texts = [(values["query"], choice) for choice in values["choices"]]
        elif kind == "schema":
            texts = [(option, values["continuation"]) for option in values["context_options"]]
        else:
            texts = [(values["context"].strip(), values["continuation"])]
        texts = [(f"{before}{delimiter}", end) for before, end in texts]
        questions.append(Question(texts, values.get("gold", 0)))
    if not questions:
        raise ValueError(f"{path} has no question")
    random.Random(_ORDER).shuffle(questions)
    return questions


def _is_right(scores: Sequence[Score], gold: int) -> bool:
    """Says whether the answer of the least mean nats is the right one; of a single text, whether
    all its tokens are the likeliest."""
    if len(scores) == 1:
        return scores[0].exact
    return int(np.argmin([score.nats / score.tokens for score in scores])) == gold


def _shared(rows: Sequence[Sequence[int]]) -> int:
    """The number of tokens that all rows begin with alike."""
    count = 0
    for tokens in zip(*rows, strict=False):
        if len(set(tokens)) > 1:
            break
        count += 1
    return count


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")
