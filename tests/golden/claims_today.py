"""How each claim stands at the small scale, by claims.json, which `tests.golden.claims` writes. No
torch here."""

import json
import math
from pathlib import Path
from typing import Any

from looplab.evaluation.statistics import Estimate
from looplab.experiments.claims import decide, find_claim
from looplab.experiments.definition import load, names

VERDICTS = Path(__file__).with_name("claims.json")
NUMBERS = ("mean", "low", "high")


def read_verdicts() -> dict[str, Any]:
    """What claims.json holds."""
    return dict(json.loads(VERDICTS.read_text(encoding="utf-8")))


def today() -> dict[str, dict[str, Any]]:
    """By claim, in the order of experiments: the `experiment`, `mean`, `low`, `high` (None where
    there is none), `seeds`, `verdict` and `reason` why it is not measured."""
    content, rows = read_verdicts(), dict[str, dict[str, Any]]()
    for experiment in names():
        for name in load(experiment).claims:
            claim = find_claim(name)
            row: dict[str, Any] = dict.fromkeys(NUMBERS)
            row |= {"experiment": experiment, "seeds": 0}
            if claim.paper_scale:
                row |= {"verdict": "paper scale", "reason": claim.paper_scale}
            elif name in content["later"]:
                row |= content["later"][name]
                low = -math.inf if row["low"] is None else row["low"]
                high = math.inf if row["high"] is None else row["high"]
                estimate = Estimate(row["mean"], low, high, row["seeds"])
                row.setdefault("verdict", decide(claim, estimate))
            elif name in content["not_measured"]:
                row |= {"verdict": "not measured", "reason": content["not_measured"][name]}
            else:
                row |= content["verdicts"][name]
            rows.setdefault(name, row)
    return rows


def on_fresh_seeds() -> set[str]:
    """The claims that are judged on seeds whose results were not known when their lines were
    set."""
    content = read_verdicts()
    fresh = {name for made in content["measured"].values() for name in made.get("asked", [])}
    fresh -= set(content["later"])
    return fresh | {name for name, row in content["later"].items() if "first_seed" in row}
