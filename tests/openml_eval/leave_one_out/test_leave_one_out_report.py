"""What the numbers say, in words and columns."""

from typing import Any

import numpy as np
import pytest

from looplab.conf.schema import Config, EvaluationConfig, ModelConfig, TaskConfig
from looplab.openml_eval.leave_one_out import Scored, Scoring, table_entry
from looplab.openml_eval.report import report
from looplab.openml_eval.scoring import SOLVERS
from looplab.openml_eval.settings import RunSettings
from looplab.openml_eval.tables import Source, Table


def make_table(name: str, features: int, ones: int, source: Source) -> Table:
    names, ys = tuple("abcde"[:features]), (np.arange(40) < ones).astype(np.int64)
    return Table(name, names, np.zeros((40, features)), ys, ("no", "yes"), source)


POLLEN = make_table("pollen", 5, 16, Source(openml_id=871, notes=("rebuilt",)))
MINE = make_table("mine", 3, 20, Source(notes=("rebuilt",)))


Done = tuple[Scoring, Scored]


def job(table: Table, seed: int = 0, solvers: bool = False) -> Scoring:
    """Asks about 8 groups of 5 rows, from 10 others."""
    config = Config(task=TaskConfig("tables", points=11), model=ModelConfig("looped"), seed=seed)
    return Scoring(table, RunSettings(contexts=8), config, solvers)


def run(table: Table, as_is: float, swapped: float, seed: int = 0) -> Done:
    """A run that is right on so many of the answers in two draws of contexts."""
    right = [
        (np.random.default_rng(side).permutation(80).reshape(2, 8, 5) < 80 * share).sum(-1)
        for side, share in enumerate((as_is, swapped))
    ]
    about = {"path": f"runs/{table.name}-{seed}", "seed": seed, "step": 1, "remarks": []}
    return job(table, seed), (about, np.stack([*right, np.full((2, 8), 5.0)], axis=-1))


def told(*done: Done) -> tuple[dict[str, Any], str]:
    tables = list({job.table.name: job.table for job, _ in done}.values())
    result = {
        "settings": {"protocol": "corrected"},
        "evaluation_seeds": 2,
        "k": 40,
        "tables": [table_entry(table, done, EvaluationConfig(resamples=200)) for table in tables],
        "solvers": SOLVERS,
        "failed": [],
    }
    return result, report(result)


def test_accuracy_is_the_mean_of_both_polarities_and_must_clear_the_larger_class() -> None:
    result, said = told(run(POLLEN, 1.0, 0.9), run(MINE, 0.6, 0.45))
    pollen, mine = (entry["models"]["looped"] for entry in result["tables"])
    assert pollen["accuracy"]["mean"] == pytest.approx(0.95)
    assert pollen["as_is"]["mean"] == 1.0
    assert pollen["swapped"]["mean"] == pytest.approx(0.9)
    assert result["tables"][0]["majority_share"] == 0.6
    assert (pollen["beats_majority"], mine["beats_majority"]) == (True, False)
    assert "looped beats the larger class on 1 of 2 tables beyond its interval" in said
    low = run(POLLEN, 0.62, 0.62)
    assert not told(low)[0]["tables"][0]["models"]["looped"]["beats_majority"]
