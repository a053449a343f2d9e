"""The FLOPs of a training on texts against counting by hand; steps by rules of tokens and of FLOPs,
as published; the papers' grids as they are planned for GPUs."""

import math
import re
from collections import Counter
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from looplab.conf.build import setting_of
from looplab.conf.compose import commands
from looplab.conf.mistakes import ConfigError
from looplab.conf.schema import Config
from looplab.experiments.definition import load, members_of
from looplab.experiments.flops import Flops, of_budget, shapes_of
from looplab.experiments.grid_result import Grid
from looplab.experiments.plan import plan, plan_of, plan_of_grid
from looplab.experiments.settings import ExperimentSettings, GridSettings
from looplab.training.assemble import build_curriculum, build_task, model_of
from looplab.training.run_folder.run import run_folder

_STEPS, _BATCH, _POINTS, _D = 10, 4, 16, 32


def _flops(*words: str) -> float:
    (command,) = commands(
        [
            *("task=language", "model=recurrent", f"task.points={_POINTS}", f"model.n_embd={_D}"),
            *("model.n_layer=1", "model.n_head=2", "model.block=relu2", "loops.b=2"),
            *(f"training.steps={_STEPS}", f"training.batch_size={_BATCH}", *words),
        ]
    )
    config = command.config
    model = model_of(config, vocabulary=257)
    return Flops(config, model, build_curriculum(config, build_task(config)))(_STEPS)


def test_products_of_each_loop_and_of_what_is_around_it() -> None:
    """Six FLOPs for each weight that multiplies and each token, gradients through all loops: two
    loops of the block and of the injection, prelude, coda and head; and attention."""
    block, injection, head = 12 * _D**2, 2 * _D**2, 320 * _D
    weights = 2 * (block + injection) + 2 * block + head
    attention = 4 * 4 * _POINTS * _D  # of four layers, forward
    by_hand = _STEPS * _BATCH * _POINTS * (6 * weights + 3 * attention)
    assert _flops("training.optimizer=adamw") == by_hand


def test_muon_orthogonalises_its_matrices_and_the_injection_on_the_sphere() -> None:
    """Five polynomials of degree five: three products of the short side."""

    def orthogonalised(*shapes: tuple[int, int]) -> int:
        return 5 * sum(4 * short**2 * long + 2 * short**3 for short, long in shapes)

    layer = orthogonalised(*[(_D, _D)] * 4, *[(_D, 4 * _D)] * 2)
    adam = _flops("training.optimizer=adamw")
    assert _flops("training.optimizer=muon") - adam == _STEPS * 3 * layer
    kept = _flops("training.optimizer=muon", "training.muon_norm=kept")
    assert kept - adam == _STEPS * (3 * layer + orthogonalised((_D, 2 * _D)))


def test_twenty_tokens_a_parameter_are_the_published_steps() -> None:
    """arXiv 2605.18797: 4,848 steps by its code and 2,626 by its text, small; 12,127 and 7,683."""
    words = ["task=language", "scale=paper", "recipe=paper", "model=FLT", "training.steps=1"]
    assert "training.steps=4,848, without the embedding's 2,626" in plan_of(Config.of(*words))
    base = ["model.n_layer=12", "model.n_embd=768", "model.n_head=6"]
    text = plan_of(Config.of(*words, *base))
    assert "training.steps=12,127, without the embedding's 7,683" in text


def test_a_budget_of_flops_is_spent() -> None:
    """At twice the budget twice the steps, and MuonH's rate times 2^-.32."""
    words = ["task=language", "scale=paper", "recipe=paper", "model=recurrent"]
    config = Config.of(*words)
    found, more = (of_budget(config, flops, 10**9) for flops in (1e18, 2e18))
    # arXiv 2604.21106 at 640 wide and r = 4: 1e18 FLOPs are 3,646 steps, by our count of the head.
    assert found["training.steps"] == pytest.approx(3646, rel=1e-3)
    assert more["training.steps"] == pytest.approx(2 * found["training.steps"], abs=2)
    ratio = more["training.muon_rate"] / found["training.muon_rate"]
    assert ratio == pytest.approx(2**-0.32, rel=1e-3)
    with pytest.raises(ConfigError, match="one step takes"):
        of_budget(config, 1e9, 10**9)


def test_a_papers_grid_is_planned_for_gpus() -> None:
    """29 widths and budgets of 4 numbers of recurrences, 20 of 3 for each of two probes; nothing is
    measured, and no text read."""
    members = members_of(load("language_iso_depth"), "paper", text="absent")
    probes = [
        "lanes" if member.config.model.lanes else member.config.loops.grad_loops
        for member in members
    ]
    assert Counter(probes) == {"all": 116, "half": 60, "lanes": 60}
    assert len({member.config.training.steps for member in members}) > 150
    text = plan(ExperimentSettings(experiment=("language_fully_looped",), scale="paper"))
    assert text.splitlines()[-1].startswith("21 runs, ")
    assert " tokens " in text
    assert "on eight" in text


# Of runs at the paper's scale the values of settings that they cross, and their number.
GRIDS: dict[str, tuple[dict[str, tuple[Any, ...]], int]] = {
    "stability_fig5c": ({"model.n_layer": (12, 24, 48), "loops.b": (1, 2, 4, 8)}, 84),
    "language_one_rate": ({"model.n_layer": (12, 24, 48), "loops.b": (1, 2, 4, 8)}, 84),
    "language_one_rate_uncorrected": ({"model.n_layer": (12, 24, 48), "loops.b": (1, 2, 4, 8)}, 84),
    "language_residual_scaling_340M": (
        {"model.residual_scaling": ("linear", "sqrt"), "loops.b": (2, 4, 8)},
        49,
    ),
    "fully_looped_fig2": ({"model.connectivity": ("LT", "FLT"), "loops.b": (6, 9, 12)}, 6),
    "language_fully_looped_fig6": ({"model.connectivity": ("LT", "FLT"), "loops.b": (6, 9, 12)}, 6),
    "language_fully_looped_table2": (
        {"model.attention": ("full", "grouped", "latent", "sliding")},
        4,
    ),
    "language_fully_looped_fig5": ({"loops.b": (3, 6, 9, 12)}, 4),
}


@pytest.mark.parametrize("name", GRIDS)
def test_the_grids_of_figures_are_planned_at_the_papers_scale(name: str) -> None:
    crossed, number = GRIDS[name]
    members = members_of(load(name), "paper", text="absent" if "language" in name else "")
    assert len(members) == number
    cells = {tuple(setting_of(member.config, key) for key in crossed) for member in members}
    assert cells >= set(product(*crossed.values()))
    lines = plan(ExperimentSettings(experiment=(name,), scale="paper")).splitlines()
    assert lines[-1].startswith(f"{number} runs, ")


def test_the_rate_that_is_not_corrected_is_the_base_rate_in_every_layer() -> None:
    """sqrt(12 / U) of the rate is used in layers, and all of the embedding's rate."""
    for member in members_of(load("language_one_rate_uncorrected"), "paper", text="absent"):
        config = member.config
        used = math.sqrt(12 / config.model.n_layer) * config.training.learning_rate
        base = config.training.embedding_rate or config.training.learning_rate
        assert used == pytest.approx(base, rel=1e-6)


def test_the_workshops_model_has_340_million_parameters() -> None:
    members = members_of(load("language_residual_scaling_340M"), "paper", text="absent")
    model = shapes_of(members[0].config)
    assert sum(p.numel() for p in model.parameters()) == pytest.approx(340e6, rel=0.005)


@pytest.mark.parametrize("scale", ["small", "paper"])
def test_loop_budgets_are_read_from_runs_of_the_table(scale: str) -> None:
    """They differ in the evaluation alone."""

    def runs(name: str) -> set[str]:
        return {run_folder(each.config).path.name for each in members_of(load(name), scale)}

    assert runs("language_fully_looped_fig5") <= runs("language_fully_looped")


@pytest.mark.parametrize("word", ["model.n_layer=100000000", "model.n_embd=1000000000000"])
def test_a_model_that_cannot_be_counted_is_beyond_the_machine(word: str) -> None:
    with pytest.raises(ConfigError) as caught:
        plan_of(Config.of("task=linear", word, "model.n_head=1"))
    assert str(caught.value).startswith(f"{word.replace('=', ' is ')}, which takes at least ")


def test_what_is_beyond_the_machine_is_planned() -> None:
    """A model of 101 layers of 16,384: 12 n_embd² weights in each."""
    words = ["model.n_layer=101", "model.n_embd=16384", "model.n_head=1"]
    text = plan_of(Config.of("task=linear", *words))
    assert "101 x 16384 wide, 1 heads, 325," in text
    assert "\nbeyond this machine: model.n_embd is 16384, which takes at least " in text


def test_one_run_and_a_grid_of_it_are_planned_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("looplab.experiments.many_runs._timed_cost", lambda config: 1e-3)
    words = ["task=linear", "training.steps=50", f"folder={tmp_path}"]
    grid = Grid.of(commands(words, multirun=True))
    found = [plan_of(Config.of(*words)), plan_of_grid("", grid.members, GridSettings())]
    (alone, among) = (re.findall(r"about (.*?) of processor time", text) for text in found)
    assert alone == among


def test_a_plan_refuses_weights_that_a_training_would_refuse() -> None:
    with pytest.raises(ConfigError, match=r"start_from cannot be linear: .* did you mean shipped/"):
        plan_of(Config.of("task=linear", "training.start_from=linear"))
    with pytest.raises(ConfigError, match="its model is another"):
        plan_of(Config.of("task=linear", "training.start_from=shipped/linear"))
    words = ["scale=medium", "training.steps=1", "training.start_from=shipped/linear"]
    assert "1 steps of " in plan_of(Config.of("task=linear", *words))
