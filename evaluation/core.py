"""CORE, the mean centred accuracy over the 22 tasks of DCLM (arXiv 2406.11794), by the rules of
nanochat's core_eval.py.

print(core_table(*core(language_model(load_run("runs/NAME")), Path("eval_bundle"))))
"""

import csv
import json
import random
from collections.abc import Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import yaml
from tqdm import tqdm

from looplab.conf.mistakes import ConfigError, one_line
from looplab.tasks.language.tokens import Tokenizer

from .bootstrap import Floats, Interval, bootstrap, resampled_means
from .text.language_model import LanguageModel, Pair, Score

_ORDER, _SHOTS = 1337, 1234  # seeds of the order of questions, and of each one's examples
_RESAMPLES = 1000


class Question(NamedTuple):
    """A question's texts, one for each answer, in two parts: what stands before, and the end.
    `gold` is the right one."""

    texts: Sequence[tuple[str, str]]
    gold: int


class Result(NamedTuple):
    """Of some questions the accuracy, that of guessing, and the centred one, 0 for guessing and 1
    for all right, with its 90 % interval over questions. `cut` texts were longer than the model's
    positions."""

    questions: int
    cut: int
    accuracy: float
    chance: float
    centred: Interval


def core(
    model: LanguageModel, bundle: Path, most: int | None = None
) -> tuple[dict[str, Result], Interval]:
    """The results by task, of its first `most` questions (where not given, all), and CORE. The
    bundle has core.yaml, eval_meta_data.csv and eval_data/. Raises ConfigError, which names it,
    where one is absent or has another form."""
    try:
        tasks = yaml.safe_load(_text(bundle / "core.yaml"))["icl_tasks"]
        facts = csv.DictReader(_text(bundle / "eval_meta_data.csv").split("\n"))
        chances = {row["Eval Task"]: float(row["Random baseline"]) / 100 for row in facts}
        asked = [(task, chances[task["label"]], _questions(bundle, task)[:most]) for task in tasks]
    except (OSError, ValueError, TypeError, KeyError, yaml.YAMLError) as error:
        problem = f"has no {error}" if isinstance(error, KeyError) else one_line(error)
        raise ConfigError("bundle", f"cannot be read: {bundle}: {problem}") from None
    results, samples = dict[str, Result](), list[Floats]()
    for seed, (task, chance, questions) in enumerate(asked):
        right, cut, kind = np.zeros(len(questions)), 0, task["icl_task_type"]
        for index, question in enumerate(tqdm(questions, task["label"], disable=None)):
            examples = examples_of(questions, index, task["num_fewshot"][0])
            scores = model.score(pairs_of(question, kind, examples, model.tokenizer))
            right[index] = _is_right(scores, question.gold)
            cut += sum(score.cut for score in scores)
        centred = (right - chance) / (1 - chance)
        own = bootstrap(centred, _RESAMPLES, seed)
        results[task["label"]] = Result(len(right), cut, float(right.mean()), chance, own)
        samples.append(resampled_means(centred, _RESAMPLES, seed))
    mean = np.array([result.centred.mean for result in results.values()]).mean()
    return results, Interval(mean, *np.percentile(np.mean(samples, axis=0), (5, 95)))


def pairs_of(question: Question, kind: str, examples: str, tokenizer: Tokenizer) -> list[Pair]:
    """The tokens of each answer's text after the examples, parted before those that are judged:
    after what all choices share, from where all options end alike, or after the context."""
    rows = [tokenizer.encode(f"{examples}{a}{b}").tolist() for a, b in question.texts]
    if kind == "schema":
        count = max(_shared([row[::-1] for row in rows]), 1)
        return [(row[:-count], row[-count:]) for row in rows]
    alike = [*rows]
    if kind == "language_modeling":
        alike.append(tokenizer.encode((examples + question.texts[0][0]).rstrip()).tolist())
    # One choice may begin another: something of each is judged, from the same place on.
    begin = min(_shared(alike), min(map(len, rows)) - 1)
    return [(row[:begin], row[begin:]) for row in rows]


def examples_of(questions: Sequence[Question], index: int, shots: int) -> str:
    """Other questions with their answers, to stand before question `index`."""
    others = [each for place, each in enumerate(questions) if place != index]
    chosen = random.Random(_SHOTS + index).sample(others, min(shots, len(others)))
    return "".join(f"{''.join(each.texts[each.gold])}\n\n" for each in chosen)


def _questions(bundle: Path, task: Mapping[str, Any]) -> list[Question]:
    """The questions of a task, shuffled."""
    kind, path = task["icl_task_type"], bundle / "eval_data" / task["dataset_uri"]
    delimiter, questions = task.get("continuation_delimiter", " "), list[Question]()
    # Not splitlines: a text in JSON may have other line breaks than the file.
    for values in map(json.loads, filter(str.strip, _text(path).split("\n"))):
        if kind == "multiple_choice":
            texts = [(values["query"], choice) for choice in values["choices"]]
        elif kind == "schema":
            texts = [(option, values["continuation"]) for option in values["context_options"]]
        else:
            texts = [(values["context"].strip(), values["continuation"])]
        parts = [(f"{before}{delimiter}", end) for before, end in texts]
        questions.append(Question(parts, values.get("gold", 0)))
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
    columns = zip(*rows, strict=False)
    return sum(1 for _ in takewhile(lambda tokens: len(set(tokens)) == 1, columns))


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")
