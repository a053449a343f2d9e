"""Numbers of a comparison are those of its arrays."""

from dataclasses import replace
from pathlib import Path

import pytest

from looplab.conf.schema import EvaluationConfig
from looplab.evaluation import compare
from looplab.evaluation.bootstrap import bootstrap
from looplab.evaluation.evaluate_run import measured
from looplab.evaluation.results import near_least
from looplab.training import Run

pytestmark = pytest.mark.usefixtures("undrawn")

SETTINGS = EvaluationConfig(prompts=64, resamples=50, batch_size=24, loops=6)


def test_a_comparisons_numbers_are_those_of_its_arrays(
    two_runs: tuple[Run, Run], tmp_path: Path
) -> None:
    settings = replace(SETTINGS, resamples=40, seed=3)
    result = compare(two_runs, settings, tmp_path)
    arrays = [measured(run, settings)[1] for run in two_runs]
    for run, saved in zip(two_runs, arrays, strict=True):
        entry = result["runs"][run.path.name]
        by_loop = entry["by_loop"]
        for found, values in (
            (entry["by_examples"]["model"], saved["model"]),
            (by_loop["model"], saved["by_loop"]),
            (entry["minus_first"]["by_examples"], saved["model"] - arrays[0]["model"]),
        ):
            assert found == bootstrap(values, 40, 3).to_json()
        assert by_loop["near_least"] == near_least(saved["by_loop"], settings)
        assert (entry["seed"], entry["step"]) == (1, 40)
