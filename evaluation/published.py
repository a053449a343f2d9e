"""The curves printed in arXiv 2311.12424 and its notebooks, for runs with the same settings.

for entry in published(run.config):
    print(entry["label"], entry["mean"][40], entry["source"])
"""

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from looplab.conf.schema import Config
from looplab.training.assemble import build_task

_PATH = Path(__file__).with_suffix(".json")
_PROTOCOL = ("steps", "prompts", "training_steps")  # what is said of how a curve was measured


def published(config: Config) -> list[dict[str, Any]]:
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


def matching(path: Path, config: Config) -> list[dict[str, Any]]:
    """The curves comparable with a run in a file of published numbers, each with its source and
    protocol: those of the run's task and, if they name a model, of its model."""
    settings = asdict(config.model) | asdict(config.loops)
    return [
        {
            **curve,
            "source": result["source"],
            **{key: value for key, value in result["protocol"].items() if key in _PROTOCOL},
        }
        for result in json.loads(path.read_text(encoding="utf-8"))["results"]
        if _same_task(config, result["task"])
        for curve in result["curves"]
        if all(settings[key] == value for key, value in curve.get("model", {}).items())
    ]


def _same_task(config: Config, task: Mapping[str, Any]) -> bool:
    """Compares settings as the task has them, including defaults."""
    if (config.task.name, config.task.points) != (task["name"], task["points"]):
        return False
    endless = {"distinct_prompts": 0, "distinct_functions": 0}
    expected = {"dims": task["dims"], **endless, **task["settings"]}
    return asdict(build_task(config)) == expected
