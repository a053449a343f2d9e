"""The race to a stated error: one of tiny models from a file to its verdicts, and what its claims
make of trainings that do not reach the target."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from looplab.evaluation.bootstrap import numbers
from looplab.evaluation.load import load_run
from looplab.evaluation.verdict import Verdict
from looplab.experiments.claims import find_claim
from looplab.experiments.command import main
from looplab.experiments.judge import judge
from looplab.show.evaluate import evaluate
from looplab.training.run_folder.files import read_record
from looplab.training.run_folder.metrics import Metrics
from looplab.training.run_folder.run import Run

from .claims.synthetic import evidence, seeds

# Of few distinct prompts, since models that learned nothing are left out.
RACE = """
title: A tiny race
source: a test
measure: time_to_quality
claims:
  race_fast_is_sooner: time_to_quality
  race_fast_ends_under_the_target: time_to_quality
small:
  seeds: 2
  runs:
    - {label: "{recipe}", task: linear, recipe: [paper, fast], loops.b: 3, loops.T: 2,
       task.dims: 2, task.points: 5, task.distinct_prompts: 8, model.n_embd: 16, model.n_head: 2,
       training.steps: 20, training.batch_size: 16, training.warmup: 2, curriculum.loops.start: 3,
       training.snapshots: [[10, 20]]}
  settings: [{targets: {linear: {error: 9.0, k: [2, 4]}}}]
  evaluation: {prompts: 48, resamples: 50}
"""


def runs(recipe: str) -> list[Run]:
    """The runs of a recipe in the working directory, by seed."""
    found = map(load_run, sorted(Path("runs").glob("linear-*")))
    return [run for run in found if run.config.recipe == recipe]


def test_a_tiny_race(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, undrawn: None) -> None:
    monkeypatch.chdir(tmp_path)
    file = Path("race.yaml")
    file.write_text(RACE, encoding="utf-8")
    assert main(["experiment=race.yaml", "jobs=1"]) == 0
    record = read_record(Path("runs/experiments/race-small/result.json"), "experiment").content
    assert record is not None
    assert record["missing"] == []
    paper, fast = runs("paper"), runs("fast")
    # Everything is under this target at once: the ratio is that of the seconds at the first
    # snapshot, as training itself logged them.
    logs = [
        [Metrics(run.path / "metrics.jsonl").read()[0] for run in each] for each in (paper, fast)
    ]
    first = [
        [next(line["cpu_seconds"] for line in log if line["step"] == 10) for log in each]
        for each in logs
    ]
    sooner, under = record["verdicts"]
    ratio = math.exp(np.log(np.array(first[0]) / np.array(first[1])).mean())
    assert sooner["mean"] == pytest.approx(ratio)
    assert sooner["note"].count("2 of 2 seeds, there after 10 steps") == 2
    # The last error is that which an evaluation of the run gives.
    errors = [
        numbers(evaluate(run, run.config.evaluation)["by_examples"]["model_at_b"]["mean"])
        for run in fast
    ]
    assert under["mean"] == pytest.approx(
        np.mean([(e[2] + e[4]) / 2 for e in errors]) / 9, rel=1e-5
    )
    assert under["verdict"] == "holds"
    assert [each["name"] for each in record["panels"]] == [
        f"error_by_{cost}-linear" for cost in ("cpu_seconds", "flops")
    ]


def race_row(label: str, seconds: float, last: float, high: float = 0.1) -> dict[str, Any]:
    """A recipe of a race: three seeds that are at the error `high` after about so many seconds, and
    end at about the error `last` after twice as many."""
    trainings = {
        str(seed): [
            {"step": 50 * part, "cpu_seconds": part * seconds * factor, "flops": 1.0 * part,
             "error": error, "high": high}
            for part, error in ((1, high), (2, last * factor))
        ]
        for seed, factor in enumerate((0.99, 1.0, 1.01))
    }  # fmt: skip
    return {"label": label, "trainings": trainings}


def raced(*rows: dict[str, object]) -> Verdict:
    """The verdict on the ratio of seconds."""
    race = {"task": "linear", "target": 0.1, "rows": rows}
    found = evidence(seeds(), time_to_quality={"races": [race]})
    return judge(find_claim("race_fast_is_sooner"), found, scale="small", command="")


def test_the_ratio_is_paired_by_seed() -> None:
    slow, fast = race_row("paper", 1.0, 0.1), race_row("fast", 1.0, 0.1)
    for seed, (ours, theirs) in enumerate([(40.0, 10.0), (10.0, 5.0), (30.0, 10.0)]):
        slow["trainings"][str(seed)][0]["cpu_seconds"] = ours
        fast["trainings"][str(seed)][0]["cpu_seconds"] = theirs
    verdict = raced(slow, fast)
    assert verdict.mean == pytest.approx((4 * 2 * 3) ** (1 / 3))
    # Student's t with two degrees of freedom leaves 5 % above 2.92.
    logs = np.log([4, 2, 3])
    half = 2.91999 * logs.std(ddof=1) / math.sqrt(3)
    assert verdict.low == pytest.approx(math.exp(logs.mean() - half), rel=1e-4)
    assert verdict.high == pytest.approx(math.exp(logs.mean() + half), rel=1e-4)


def test_a_rival_that_does_not_reach_it_gives_the_least_ratio() -> None:
    verdict = raced(race_row("paper", 30.0, 0.2, high=0.3), race_row("fast", 10.0, 0.1))
    assert verdict.mean == pytest.approx(2 * 3)  # to its end
    assert verdict.high is None
    assert verdict.verdict == "holds"
    assert "paper reaches 0.1 in 0 of 3 seeds, fast reaches 0.1 in 3 of 3" in verdict.note
    shorter = raced(race_row("paper", 4.0, 0.2, high=0.3), race_row("fast", 10.0, 0.1))
    assert shorter.verdict == "not settled"
