"""The least loops that training needs, from errors that are chosen."""

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from looplab.conf.schema import (
    Config,
    CurriculumConfig,
    EvaluationConfig,
    GrowthConfig,
    LoopsConfig,
    TaskConfig,
)
from looplab.evaluation.bootstrap import Floats
from looplab.evaluation.evaluated_run import EvaluatedRun
from looplab.experiments import difficulty
from looplab.experiments.claims import find_claim
from looplab.experiments.evidence import Evidence
from looplab.experiments.judge import judge
from looplab.experiments.question import _plain
from looplab.tasks import make_task
from looplab.training import Run, train
from tests.conftest import tiny_config
from tests.experiments.checks import check_panels, panels_of

_LOOPS = (1, 2, 4, 8)
# By dimensions and T, the error at each number of loops.
_LEVELS = {
    (2, 1): (1.0, 0.4, 0.2, 0.2),
    (2, 4): (1.0, 0.1, 0.1, 0.1),
    (4, 1): (1.0, 0.8, 0.7, 0.6),
    (4, 4): (1.0, 0.8, 0.6, 0.2),
}


def _run(dims: int, T: int, b: int, seed: int) -> Run:
    config = Config(
        task=TaskConfig("linear", dims, 2 * dims + 1), loops=LoopsConfig(b, T), seed=seed
    )
    path = Path(f"{dims}-{T}-{b}-{seed}")
    return Run(path, config, make_task("linear", dims), cast(Any, None), 1000)


def test_the_least_loops_are_those_of_the_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    def evaluated(run: Run, settings: EvaluationConfig) -> tuple[None, dict[str, Floats]]:
        loops = run.config.loops
        level = _LEVELS[run.config.task.dims, loops.T][_LOOPS.index(loops.b)]
        noise = np.random.default_rng([run.config.seed, loops.b]).normal(1, 0.01, (50, 5))
        return None, {"model_at_b": level * noise}

    monkeypatch.setattr(difficulty, "evaluated", evaluated)
    monkeypatch.setattr(difficulty, "kept_bytes", lambda run: 2**20 * run.config.loops.T)
    runs = [_run(*of, b, seed) for of in _LEVELS for b in _LOOPS for seed in (0, 1)]
    result = _plain(difficulty.measure(runs, EvaluationConfig(resamples=100)))
    found = result["classes"]["linear"]
    names = check_panels(panels_of(difficulty, result))
    assert names == ["errors-linear", "least-linear", "memory-linear"]
    assert found["values"] == [2, 4]
    assert found["memory"] == [[2**20] * 4, [2**22] * 4]
    # A quarter above the best: 0.125 between b = 1 and 2, and 0.25 between 4 and 8.
    (unreached, easy), (never, hard) = found["least"]
    assert unreached is never is None
    assert easy == pytest.approx(2 - 0.025 / 0.9, abs=0.05)
    assert hard == pytest.approx(8 - 4 * 0.05 / 0.4, abs=0.2)
    assert found["growth"]["mean"] == pytest.approx(hard / easy, rel=1e-6)
    members = [EvaluatedRun("looped", run.config, 500_000, {}) for run in runs]
    evidence = Evidence(members, {"difficulty": result})
    verdict = judge(find_claim("difficulty_linear"), evidence, scale="small", command="")
    assert verdict.mean == pytest.approx(hard / easy, rel=1e-6)


def test_a_step_keeps_as_much_as_its_window(tmp_path: Path) -> None:
    kept = {}
    for b, T in ((4, 1), (4, 2), (4, 4), (6, 2)):
        config = replace(tiny_config(tmp_path), loops=LoopsConfig(b, T))
        start = CurriculumConfig(loops=GrowthConfig(start=b))
        training = replace(config.training, steps=1)
        run = train(replace(config, curriculum=start, training=training))
        kept[b, T] = difficulty.kept_bytes(run)
    assert kept[6, 2] == kept[4, 2]
    one = kept[4, 2] - kept[4, 1]
    assert kept[4, 4] == pytest.approx(kept[4, 2] + 2 * one, rel=0.02)
    assert one > 0
