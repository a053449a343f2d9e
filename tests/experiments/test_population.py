"""Populations are found when they are trained, and apart where they differ."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from looplab.conf.mistakes import RunError
from looplab.conf.schema import (
    Config,
    CurriculumConfig,
    EvaluationConfig,
    GrowthConfig,
    LoopsConfig,
    ModelConfig,
    TaskConfig,
    TrainingConfig,
)
from looplab.evaluation import evaluate, load_run
from looplab.evaluation.bootstrap import numbers
from looplab.experiments import population as module
from looplab.experiments.population import Population, measured
from looplab.training import train
from looplab.training.run_folder.run import run_folder


def config_of(folder: Path) -> Config:
    return Config(
        task=TaskConfig("linear", dims=2, points=4),
        model=ModelConfig(n_embd=8, n_head=2, n_positions=4, injection="none", norm="at_readout"),
        loops=LoopsConfig(b=2, T=1, grad_loops="all"),
        curriculum=CurriculumConfig(loops=GrowthConfig(start=2)),
        training=TrainingConfig(steps=6, batch_size=8, log_every=1, checkpoint_every=2),
        evaluation=EvaluationConfig(prompts=16, baselines=(), max_loops=2),
        folder=str(folder),
    )


@pytest.fixture
def population(tmp_path: Path) -> Population:
    return Population("two loops", config_of(tmp_path), (1e-3, 1e-2), (0, 1, 2))


def changed(population: Population, part: str, **settings: Any) -> Population:
    values = replace(getattr(population.config, part), **settings)
    return replace(population, config=replace(population.config, **{part: values}))


def no_training(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(configs: object) -> None:
        raise AssertionError("trained again")

    monkeypatch.setattr(module, "train_together", refuse)


@pytest.mark.slow
@pytest.mark.usefixtures("undrawn")
def test_errors_and_curves_are_those_of_the_runs(population: Population) -> None:
    found = population()
    losses = population.curve("loss")
    assert losses.shape == (6, 2, 3)
    for i, rate in enumerate(population.rates):
        for j, seed in enumerate(population.seeds):
            config = population.configs[3 * i + j]
            assert (config.training.learning_rate, config.seed) == (rate, seed)
            run = load_run(run_folder(config).path)
            errors = evaluate(run, config.evaluation)["by_examples"]["model_at_b"]["mean"]
            assert found["errors"][i][j] == pytest.approx(np.mean(numbers(errors)), rel=1e-5)
            alone = train(replace(config, folder=f"{config.folder}/alone"))
            again = evaluate(alone, config.evaluation)["by_examples"]["model_at_b"]["mean"]
            assert np.mean(numbers(again)) == pytest.approx(np.mean(numbers(errors)), rel=1e-4)
            before = replace(config, training=replace(config.training, steps=0))
            untrained = train(replace(before, folder=f"{config.folder}/untrained"))
            errors = evaluate(untrained, config.evaluation)["by_examples"]["model_at_b"]["mean"]
            assert found["initial"][i][j] == pytest.approx(np.mean(numbers(errors)), rel=1e-5)


def test_finished_ones_are_found(population: Population, monkeypatch: pytest.MonkeyPatch) -> None:
    found = population()
    no_training(monkeypatch)
    assert replace(population, name="of another name")() == found
    assert population.curve("loss").shape == (6, 2, 3)


def test_one_more_seed_trains_that_seed_alone(
    population: Population, capsys: pytest.CaptureFixture[str]
) -> None:
    few = replace(population, seeds=(0, 1))
    errors = few()["errors"]
    more = population()["errors"]
    assert [row[:2] for row in more] == errors
    (said,) = (
        path.read_text()
        for path in Path(population.config.folder).glob("populations/*.txt")
        if "trained already" in path.read_text()
    )
    assert said.count("trained already") == 4


def test_runs_of_other_code_are_trained_again(
    population: Population, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = population()
    monkeypatch.setattr(module, "other_code", lambda made_with, config: ["tasks/linear.py"])
    monkeypatch.setattr(module, "sources_of", lambda *_: {"experiments/population.py": "new"})
    assert population() == found
    folder = Path(population.config.folder)
    assert len(list(folder.glob("linear-*-before-1"))) == 6


def test_what_bears_on_the_errors_makes_others(population: Population) -> None:
    found = population()
    others = [
        replace(population, rates=(1e-3, 2e-2)),
        replace(population, seeds=(0, 1, 3)),
        changed(population, "training", steps=7),
        changed(population, "model", n_embd=16),
        changed(population, "evaluation", prompts=17),
    ]
    assert all(other() != found for other in others)
    assert replace(population, config=replace(population.config, seed=7))() == found


def test_a_run_that_diverges_has_no_error(population: Population) -> None:
    found = replace(population, rates=(1e-3, 1e30))()
    assert all(error is not None for error in found["errors"][0])
    assert found["errors"][1] == [None, None, None]
    curve = replace(population, rates=(1e-3, 1e30)).curve("loss")
    assert np.isfinite(curve[:, 0]).all()
    assert np.isnan(curve[-1, 1]).all()
    assert population.describe(found).startswith("least error")
    nothing: Any = {"errors": [[None]]}
    assert population.describe(nothing) == "every run diverged"


def test_they_come_back_in_their_order(population: Population) -> None:
    """Whatever order they are computed in."""
    more = changed(population, "training", batch_size=4)
    found = measured([population, more], 1, Path(population.config.folder) / "logs")
    assert found == [population(), more()]
    assert found[0] != found[1]


def test_one_that_fails_is_named(population: Population) -> None:
    wrong = replace(changed(population, "training", clip=-1.0), name="wrong one")
    logs = Path(population.config.folder) / "logs"
    with pytest.raises(RunError, match=r"wrong one: training.clip must be at least 0"):
        measured([population, wrong], 1, logs)
