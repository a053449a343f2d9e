"""What is measured, and what is taken from the cache: by what each part of it depends on."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from looplab.conf.schema import EvaluationConfig
from looplab.evaluation.baselines import solvers
from looplab.evaluation.bootstrap import numbers
from looplab.evaluation.errors import ErrorSettings, HaltingRule, halted_at, model_errors
from looplab.evaluation.evaluate_run import resolved
from looplab.evaluation.evaluator import Evaluator
from looplab.show.compare import compare
from looplab.show.evaluate import evaluate
from looplab.tasks import SHIFTS, Prompts
from looplab.training import Run, RunError
from looplab.training.run_folder.run import RunFolder
from looplab.training.validation import evaluation_prompts
from tests.evaluation.conftest import restless

pytestmark = pytest.mark.usefixtures("undrawn")

SETTINGS = EvaluationConfig(prompts=64, resamples=50, batch_size=24, loops=6)


def test_a_shifted_query_halts_on_its_own_state(tiny_run: Run) -> None:
    run = restless(tiny_run)
    shifted = SHIFTS["random_orthants"].sample(run.task, torch.Generator().manual_seed(1), 32, 7)
    rule = HaltingRule("state", 0.3, 8)
    read = model_errors(
        run.model, run.task, shifted.prompts, ErrorSettings((4,), 8, rule), shifted.queries
    )
    for k in range(7):
        xs = shifted.prompts.xs[:, : k + 1].clone()
        xs[:, k] = shifted.queries.xs[:, k]
        alone = Prompts(xs, shifted.prompts.ys[:, : k + 1])
        states = [state.stream[:, -2] for state, _ in run.model.unroll(alone, 8)][1:]
        moved = torch.stack(
            [torch.full((32,), torch.nan)]
            + [(b - a).norm(dim=1) / b.norm(dim=1) for a, b in pairwise(states)],
            1,
        ).numpy()
        used = halted_at(moved, moved, 0.3, 8)[1]
        assert (read["loops_used"][:, k] == used).mean() > 0.9  # rounding at the tolerance


def test_each_prediction_halts_by_itself() -> None:
    changes = np.array([[np.nan, 0.5, 0.1, 0.01], [np.nan, 0.05, 0.9, 0.001]])
    errors = np.array([[4.0, 3.0, 2.0, 1.0], [8.0, 7.0, 6.0, 5.0]])
    # At the tolerance counts as settled; what settled stays, though it moves again later.
    values, loops = halted_at(errors, changes, 0.1, latest=4)
    assert (values.tolist(), loops.tolist()) == ([2.0, 7.0], [3.0, 2.0])


@pytest.mark.parametrize(("latest", "at"), [(9, 4), (3, 3), (1, 1)])
def test_what_does_not_settle_is_read_at_the_latest_loop(latest: int, at: int) -> None:
    errors, changes = np.arange(1.0, 5.0)[None, None], np.full((1, 1, 4), 0.5)
    values, loops = halted_at(errors, changes, 0.1, latest)
    assert (values.tolist(), loops.tolist()) == ([[at]], [[at]])
    assert (changes == 0.5).all()


def test_halting_ends_at_b_unless_told(two_runs: tuple[Run, Run]) -> None:
    looped, standard = map(restless, two_runs)
    never = replace(SETTINGS, loops="auto", tolerance=1e-9)
    used = evaluate(looped, never)["by_examples"]["loops_used"]["mean"]
    assert used == [4.0] * 7
    # Another rule is measured anew: neither its result nor the cache is taken for it.
    used = evaluate(looped, replace(never, halt_by=9))["by_examples"]["loops_used"]["mean"]
    assert used == [9.0] * 7
    assert evaluate(looped, never)["by_examples"]["loops_used"]["mean"] == [4.0] * 7
    for asked, found in (
        (replace(never, halt_by=30), (30, 30)),
        (replace(never, max_loops=3), (4, 4)),
        (replace(SETTINGS, halt_by=30), (12, 12)),
        (SETTINGS, (12, 4)),
    ):
        done = resolved(looped, asked)
        assert (done.max_loops, done.halt_by) == found
    assert resolved(standard, replace(never, halt_by=30)).halt_by == 2


def test_other_weights_are_measured_anew(tiny_run: Run) -> None:
    before = evaluate(tiny_run, SETTINGS)["by_examples"]["model"]["mean"]
    with torch.no_grad():
        tiny_run.model.read_out.bias.add_(1)  # the very last tensor
    after = evaluate(replace(tiny_run, step=41), SETTINGS)["by_examples"]["model"]["mean"]
    assert np.abs(numbers(after) - numbers(before)).min() > 0


def test_choosing_reuses_no_other_settings_errors_and_no_judged_prompt(tiny_run: Run) -> None:
    evaluator = Evaluator(tiny_run, resolved(tiny_run, SETTINGS))
    label, errors = evaluator.baseline("lasso")
    others = evaluation_prompts(tiny_run.task, 256, 7, SETTINGS.seed + 1)
    assert not torch.isin(others.xs, evaluator.prompts.xs).any()
    choices = solvers("lasso", tiny_run.task)

    def errors_of(label: str, prompts: Prompts) -> NDArray[np.float64]:
        xs, ys = prompts.xs.double().numpy(), prompts.ys.double().numpy()
        return np.square(choices[label](xs, ys, xs) - ys) / 2

    means = {name: errors_of(name, others).mean() for name in choices}
    kept = [np.load(path)["errors"] for path in tiny_run.path.glob("cache/lasso-choice-*.npz")]
    assert sorted(map(np.mean, kept)) == pytest.approx(sorted(means.values()))
    assert len(set(map(np.mean, kept))) == 5
    assert means[label] == min(means.values())
    np.testing.assert_allclose(errors, errors_of(label, evaluator.prompts))


def test_a_run_at_work_is_left_alone(two_runs: tuple[Run, Run], tmp_path: Path) -> None:
    for held in two_runs:
        with RunFolder(held.path).lock("evaluation"):
            with pytest.raises(RunError):
                evaluate(held, replace(SETTINGS, loops=None))
            with pytest.raises(RunError):
                compare(two_runs, replace(SETTINGS, loops=None), tmp_path / "place")
    assert not (tmp_path / "place").exists()
