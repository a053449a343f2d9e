"""What is beyond a machine: estimates against counting by hand, and what ships within all."""

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from looplab.conf.checks.reach import check_reach
from looplab.conf.files import choices
from looplab.conf.mistakes import ConfigError
from looplab.conf.schema import Config, EvaluationConfig
from looplab.experiments.definition import Member, load, members_of
from looplab.experiments.grid import train_grid
from looplab.experiments.many_runs import train_all
from looplab.show.evaluate import evaluate
from looplab.training import Run, train
from tests.conftest import tiny_config

_CARD = 80e9  # bytes
_FAR = 10**12


@pytest.mark.parametrize("scale", ["small", "medium", "paper"])
def test_what_ships_is_within_reach(scale: str) -> None:
    """Every task, of texts every model, and the largest experiments: at scale=paper of a card, else
    of a laptop of 4 GB."""
    words = [(f"task={task}", "model=looped") for task in choices("task")]
    words += [("task=language", f"model={m}") for m in choices("model") if m != "linear_attention"]
    configs = [Config.of(f"scale={scale}", *each) for each in words]
    for name in ("language_fully_looped_base", "language_residual_scaling", "fig03"):
        members = members_of(load(name), scale) if scale in load(name).scales else ()
        configs += [member.config for member in members]
    for config in configs:
        check_reach(config, memory=_CARD if scale == "paper" else 4e9)


def test_memory_is_that_of_counting() -> None:
    """A wide model: weights, gradients and one state of Muon, of all matrices but those of keys and
    values. Many resamples: as many counts as there are prompts."""
    width = 10**6
    wide = Config.of("task=linear", f"model.n_embd={width}")
    assert f"at least {12 * 10 * width**2 / 1e9:,.0f}"[:-2] in _refused(wide, "training")
    many = Config.of("task=linear", "evaluation.prompts=1000", "evaluation.resamples=1000000000")
    assert "evaluation.resamples is 1000000000, which takes at least 8,000 GB" in _refused(
        many, "evaluation"
    )


def test_nothing_is_trained_or_measured_of_what_is_beyond(
    tiny_run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    """By every way from Python; a folder is not even made. The first of several runs neither."""
    home = tiny_run.path.parent
    near = tiny_config(folder=home / "beyond")
    far = replace(near, loops=replace(near.loops, b=_FAR))
    members = [Member("", (), near), Member("", (), far)]
    words = ("task=linear", f"folder={near.folder}", f"loops.b=2,{_FAR}")
    capsys.readouterr()
    ways: tuple[tuple[str, Callable[[], object]], ...] = (
        ("loops.b", lambda: train(far)),
        ("loops.b", lambda: train_all(members, home / "logs")),
        ("loops.b", lambda: train_grid(*words, jobs=1)),
        ("evaluation.prompts", lambda: evaluate(tiny_run, EvaluationConfig(prompts=_FAR))),
        ("evaluation.loops", lambda: evaluate(tiny_run, EvaluationConfig(loops=_FAR))),
    )
    for setting, way in ways:
        with pytest.raises(ConfigError, match=f"^{re.escape(setting)} is 1000000000000, which"):
            way()
    assert capsys.readouterr().out == ""
    assert not (home / "beyond").exists()


def test_a_run_of_a_larger_machine_is_evaluated_here() -> None:
    config = Config.of("task=linear", "training.batch_size=1000000000")
    check_reach(config, "evaluation")
    assert "training.batch_size" in _refused(config, "training")


def _refused(config: Config, part: str) -> str:
    with pytest.raises(ConfigError) as caught:
        check_reach(config, part, memory=16e9)  # type: ignore[arg-type]
    return str(caught.value)
