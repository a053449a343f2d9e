"""The numbers of an experiment's pictures."""

from pathlib import Path

import numpy as np

from looplab.conf.schema import Config
from looplab.evaluation.evaluated_run import EvaluatedRun
from looplab.experiments.definition import load, members_of
from looplab.show.panel_spec import PanelSpec
from looplab.show.standard_panels import panels


def test_a_curve_is_the_mean_over_seeds_and_prompts(tiny: Path) -> None:
    """Of made-up errors of the tiny experiment's runs: 8 prompts, 4 points."""
    random, found = np.random.default_rng(0), list[EvaluatedRun]()
    for member in members_of(load(str(tiny)), "small"):
        found.append(EvaluatedRun(member.label, member.config, 4, {"model": random.random((8, 4))}))
    (panel,) = panels([PanelSpec("by_examples")], found)
    looped = panel.curves[0]
    both = np.stack([run.arrays["model"] for run in found[:2]])
    np.testing.assert_allclose(np.array(looped.mean, float), both.mean((0, 1)))
    assert looped.label == "looped, b = 2"
    assert looped.b == 2
    low, high = np.array(looped.low, float), np.array(looped.high, float)
    assert (low < both.mean((0, 1))).all()
    assert (high > both.mean((0, 1))).all()


def test_a_title_counts_the_inputs_that_count_where_all_runs_have_as_many() -> None:
    found = []
    for sparsity in (1, 2, 2):
        config = Config.of("task=sparse_linear", "task.dims=4", f"task.sparsity={sparsity}")
        label = f"sparsity = {sparsity}"
        found.append(EvaluatedRun(label, config, 4, {"model": np.ones((8, 4))}))
    titles = {
        "Sparse functions of 4 inputs": found,
        "Sparse functions of 4 inputs, 1 of which counts": found[:1],
        "Sparse functions of 4 inputs, 2 of which count": found[1:],
    }
    for title, runs in titles.items():
        (panel,) = panels([PanelSpec("by_examples")], runs)
        assert panel.title == title


def test_runs_of_one_label_that_differ_in_more_than_their_seed_are_curves_of_their_own() -> None:
    found = []
    for number, words in enumerate((["loops.b=12"], ["loops.b=6", "loops.T=3"], ["seed=1"])):
        config = Config.of("task=linear", *words)
        found.append(EvaluatedRun("mine", config, 4, {"model": np.full((8, 4), 1.0 + number)}))
    (panel,) = panels([PanelSpec("by_examples")], found)
    assert [curve.label for curve in panel.curves] == ["mine, b = 12, T = 4", "mine, b = 6, T = 3"]
    assert [curve.mean[0] for curve in panel.curves] == [2.0, 2.0]  # (1 + 3) / 2 and 2
