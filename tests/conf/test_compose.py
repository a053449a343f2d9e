"""What the words compose to: scales, precedence, grids, curricula in proportion to the steps."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from looplab.conf.compose import commands
from looplab.conf.files import choices
from looplab.conf.mistakes import ConfigError
from looplab.conf.schema import Config
from looplab.curricula import Curriculum
from looplab.main import main
from looplab.training.assemble import build_curriculum, build_task


def config(*words: str) -> Config:
    return commands(list(words))[0].config


# The reference's best (b, T), dims and points with their growth, at the paper's scale.
PAPER = {
    "linear": ((20, 15), 41, (11, 2)),
    "noisy_linear": ((20, 15), 41, (11, 2)),
    "sparse_linear": ((20, 10), 41, (11, 2)),
    "decision_tree": ((70, 15), 101, (26, 5)),
    "relu_network": ((12, 5), 101, (26, 5)),
}


@pytest.mark.parametrize("task", PAPER)
def test_the_paper_scale_holds_the_reference_values(task: str) -> None:
    paper = config(f"task={task}", "scale=paper")
    (b, T), points, growth = PAPER[task]
    assert (paper.loops.b, paper.loops.T) == (b, T)
    assert (paper.task.dims, paper.task.points) == (20, points)
    dims, pairs, loops = paper.curriculum.dims, paper.curriculum.points, paper.curriculum.loops
    assert (dims.start, dims.inc, dims.intervals) == (5, 1, (5000,))
    assert (pairs.start, pairs.inc, pairs.intervals) == (*growth, (5000,))
    assert (loops.start, loops.inc, loops.intervals) == (None, 2, (500,))
    training, model = paper.training, paper.model
    assert (training.steps, training.batch_size, training.learning_rate) == (500_000, 64, 1e-4)
    assert (training.beta1, training.beta2) == (0.9, 0.999)
    assert training.clip == training.weight_decay == training.warmup == training.decay == 0
    assert (model.n_embd, model.n_head, model.n_positions) == (256, 8, 101)
    assert paper.evaluation.loops == (200 if task == "decision_tree" else 500)


def test_posterior_means_of_a_recipe_give_way_where_none_are_known() -> None:
    """Of finitely many prompts, and of more supports than are summed over."""
    noisy = ["task=noisy_linear", "scale=small"]
    sparse = ["task=sparse_linear", "model.tokens=pairs", "task.dims=40"]
    assert config(*noisy).training.targets == "posterior_mean"
    assert config(*noisy, "task.distinct_prompts=1000").training.targets == "outputs"
    assert config(*sparse, "task.sparsity=3").training.targets == "posterior_mean"
    assert config(*sparse, "task.sparsity=6").training.targets == "outputs"


LAST_LOOP = ["LT", "LT_i", "LT_ai", "FLT", "FLT_res", "recurrent", "unnormed"]


@pytest.mark.parametrize(
    ("model", "task", "scale"),
    [
        (model, task, scale)
        for scale in choices("scale")
        for model in LAST_LOOP
        for task in ("linear", "language")
    ],
)
def test_the_loss_of_these_models_is_their_papers_at_every_scale(
    model: str, task: str, scale: str
) -> None:
    """The last loop's alone, gradients through all of them, all made from the first step."""
    words = [f"task={task}", f"model={model}", f"scale={scale}"]
    for more in ([], ["loops.b=9"]):
        composed = config(*words, *more)
        assert (composed.loops.T, composed.loops.grad_loops) == (1, "all")
        stages = [build_curriculum(composed, build_task(composed))(step) for step in (0, 10**6)]
        b = composed.loops.b
        assert [(s.loops, s.window, s.grad_loops) for s in stages] == [(b, 1, b)] * 2
    looped = config(f"task={task}", f"scale={scale}")
    if (task, scale) != ("language", "medium"):  # where the last loop's loss was the better one
        assert (looped.loops.T > 1, looped.loops.grad_loops) == (True, "window")
    assert composed.curriculum.dims == looped.curriculum.dims


def test_each_value_is_shown_with_its_file(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    words = "task=sparse_linear model=LT scale=medium training.optimizer=adamw --settings"
    assert main(words.split()) == 0
    rows = [line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()]
    origins = {word.partition("=")[0]: (word.partition("=")[2], file) for word, file in rows}
    assert origins["training.optimizer"] == ("adamw", "given")
    assert origins["training.muon_rate"] == ("0.02", "fitted")
    assert origins["model.n_embd"] == ("64", "conf/scale/medium.yaml")
    assert origins["loops.b"] == ("8", "conf/scale/medium.yaml, task=sparse_linear")
    assert origins["loops.T"] == ("1", "conf/model/LT.yaml")
    assert origins["training.epsilon"][1] == "conf/schema.py"
    assert "action" not in origins
    assert main(["task=linear", "training.clip=-1", "--settings"]) == 2
    capsys.readouterr()
    monkeypatch.chdir(tmp_path)
    assert main(["action=evaluate", "run=shipped/linear", "--settings"]) == 2
    assert capsys.readouterr().err.startswith("run.py: --settings is for a training")


def test_the_values_of_a_list_stand_between_commas_or_make_a_grid() -> None:
    """Of every combination, in order."""
    word = "evaluation.shifts=noise,scaled_x_2"
    assert config(word).evaluation.shifts == ("noise", "scaled_x_2")
    (command,) = commands([word], multirun=True)  # no training depends on it
    assert command.config.evaluation.shifts == ("noise", "scaled_x_2")
    grid = commands(["seed=0,1", "curriculum.dims.intervals=[1,2],[3]"], multirun=True)
    members = [(each.config.seed, each.config.curriculum.dims.intervals) for each in grid]
    assert members == [(0, (1, 2)), (0, (3,)), (1, (1, 2)), (1, (3,))]


@pytest.mark.parametrize("text", ["yes", "True", "true", "on", "'true'"])
def test_true_may_be_written_in_several_ways(text: str) -> None:
    assert config(f"tensorboard={text}").tensorboard is True


def test_a_list_among_a_tasks_settings() -> None:
    for text, tables in {"[a,b]": ("a", "b"), "b": ("b",)}.items():
        given = config("task=tables", f"task.tables={text}", "task.held_out=b")
        assert given.task.settings["tables"] == tables


def test_words_in_another_form_are_answered_with_the_words() -> None:
    of: Any = Config.of
    meant = re.escape("task is given as a word: Config.of('task=linear')")
    with pytest.raises(ConfigError, match=meant):
        of(task="linear", seed=1)
    for wrong in (["task=linear"], {"task": "linear"}):
        with pytest.raises(ConfigError, match="a word must be a text, as 'task=linear', and a"):
            of(wrong)


def test_an_import_has_the_given_values_and_no_scale_s(tmp_path: Path) -> None:
    path = tmp_path / "LR_ends{20}_T{15}, a=b.pt"
    path.touch()
    given = {"task": "noisy_linear", "task.noise_std": 0.5, "model": "tied", "loops.b": 5}
    words = [f"{key}={value}" for key, value in given.items()]
    words += ["action=import", f"checkpoint={path}", "folder=elsewhere", "task.renormalize=false"]
    (command,) = commands(words)
    assert (command.action, command.paths) == ("import", (str(path),))
    assert command.config == Config(folder="elsewhere")
    assert command.given == given | {"task.renormalize": False}


@pytest.mark.parametrize("scale", choices("scale"))
@pytest.mark.parametrize("task", choices("task"))
def test_a_recipe_says_how_to_train_and_nothing_else(task: str, scale: str) -> None:
    """Not which model, prompts, window or evaluation."""
    paper, fast = (
        config(f"task={task}", f"scale={scale}", f"recipe={recipe}") for recipe in ("paper", "fast")
    )
    for part in ("task", "model", "loops", "evaluation", "seed", "precision"):
        assert getattr(paper, part) == getattr(fast, part)
    assert paper.training != fast.training


def test_a_recipe_gives_way_to_what_was_given() -> None:
    assert config("task=linear", "training.optimizer=adamw").training.muon_rate == 0.02
    assert config("task=sparse_linear", "loops.b=2").curriculum.loops.start == 2
    assert config("task=sparse_linear", "task.dims=2").curriculum.dims.start == 2
    with pytest.raises(ConfigError, match="beyond the end"):
        config("task=sparse_linear", "loops.b=2", "curriculum.loops.start=3")


ALL = "curriculum.proportional=true"


def of_recipe(*words: str) -> tuple[Config, Curriculum]:
    """What the recipe whose curriculum has three intervals composes, and its curriculum."""
    composed = config("recipe=paper", "task=linear", *words)
    return composed, build_curriculum(composed, build_task(composed))


@pytest.mark.parametrize("steps", [400, 1000, 70_000])
def test_a_shorter_or_longer_run_stands_where_the_full_one_does(steps: int) -> None:
    full, theirs = of_recipe()
    ours, mine = of_recipe(f"training.steps={steps}", ALL)
    assert (ours.training.steps, full.training.steps) == (steps, 7000)
    for part in range(0, 101, 5):
        then, now = theirs(part * 7000 // 100), mine(part * steps // 100)
        # Rounded down, an interval ends a step early at most, and a grid of 100 parts may see it.
        assert now.dims - then.dims in (0, 1)
        assert now.loops - then.loops in (0, 2)
    end = mine(steps - 1)
    assert (end.dims, end.loops) == (5, 12)


def test_what_does_not_grow_keeps_its_intervals() -> None:
    words = ("training.steps=70", "loops.sampling=uniform")
    (plain, _), (ours, _) = of_recipe(*words), of_recipe(*words, ALL)
    dims = replace(plain.curriculum.dims, intervals=(13, 6, 5))
    assert ours.curriculum == replace(plain.curriculum, dims=dims)
    assert ours.training.warmup == plain.training.warmup
