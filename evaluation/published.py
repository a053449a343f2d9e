"""The curves printed in arXiv 2311.12424 and its notebooks, for runs with the same settings.

for entry in published(run.config):
    print(entry["label"], entry["mean"][40], entry["source"])
"""

import json
from dataclasses import asdict
from pathlib import Path

from looplab.conf.schema import Config
from looplab.training.assemble import build_task

from .plain import Content, Fields

_PATH = Path(__file__).with_suffix(".json")
_PROTOCOL = ("steps", "prompts", "training_steps")  # what is said of how a curve was measured


def published(config: Config) -> list[Fields]:
    """The printed curves comparable with a run's errors by examples: errors over the task's
    divisor, entry k after k in-context examples, each with the `source`, `prompts` and
    `training_steps` of its result.

    A baseline's curve needs the same task: name, dims, points, settings and unlimited prompts. A
    model's needs the same shape, b and T as well; it has the `loops` (layers, for a standard model)
    that it is read at. Steps and curriculum are not compared. For decision trees, noisy functions
    and the ReLU network's baselines no numbers are printed.

    `name` is "model" or a baseline's; `low` and `high` bound the 90 % bootstrap interval, where one
    is printed. `in_paper` holds the values in the paper's text, by k; `rounding` says how many
    digits are printed.
    """
    return matching(_PATH, config)


def matching(path: Path, config: Config) -> list[Fields]:
    """The curves comparable with a run in a file of published numbers, each with its source and
    protocol: those of the run's task and, if they name a model, of its model."""
    settings = asdict(config.model) | asdict(config.loops)
    curves = list[Fields]()
    for result in json.loads(path.read_text(encoding="utf-8"))["results"]:
        if not _same_task(config, result["task"]):
            continue
        about = {"source": result["source"]}
        for key, value in result["protocol"].items():
            if key in _PROTOCOL:
                about[key] = value
        for curve in result["curves"]:
            model = curve.get("model", {})
            if all(settings[key] == value for key, value in model.items()):
                curves.append(curve | about)
    return curves


def _same_task(config: Config, task: Content) -> bool:
    """Compares settings as the task has them, including defaults."""
    if config.task.name != task["name"] or config.task.points != task["points"]:
        return False
    expected = {"dims": task["dims"], "distinct_prompts": 0, "distinct_functions": 0}
    return asdict(build_task(config)) == expected | task["settings"]
