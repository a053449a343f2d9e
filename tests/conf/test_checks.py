"""Settings that go together, those that do not, and those out of range; what a comparison takes
from its words."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from looplab.conf.checks.config import check_config
from looplab.conf.compose import commands
from looplab.conf.mistakes import ConfigError
from looplab.conf.schema import Config, LoopsConfig, ModelConfig
from looplab.training.run_folder.run import RunFolder
from tests.conftest import tiny_config


def problem(loops: LoopsConfig, precision: Any = "auto", **model: Any) -> str:
    """What is refused, or nothing."""
    try:
        check_config(Config(model=ModelConfig(**model), loops=loops, precision=precision))
    except ConfigError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("b", "T", "sampling", "least"),
    [
        (20, 15, "none", 15),
        (12, 15, "none", 12),
        (6, 15, "uniform", 11),
        (3, 15, "poisson_lognormal", 12),
    ],
)
def test_a_whole_number_reaches_all_that_can_count(
    b: int, T: int, sampling: Any, least: int
) -> None:
    """Drawn loops can be more than b, and then more of them count."""
    assert problem(LoopsConfig(b, T, least, sampling)) == ""
    expected = f"loops.grad_loops must be at least {least}, the loops that count in the loss, got"
    assert problem(LoopsConfig(b, T, least - 1, sampling)).startswith(expected)


@pytest.mark.parametrize(("b", "T", "fits"), [(12, 6, True), (13, 8, False), (1, 15, True)])
def test_half_reaches_all_that_count_at_b(b: int, T: int, fits: bool) -> None:
    assert (problem(LoopsConfig(b, T, "half", "uniform")) == "") is fits


@pytest.mark.parametrize(
    ("T", "rule", "fits"),
    [(3, "all", True), (3, "half", False), (3, 7, False), (3, 8, True), (8, "window", True)],
)
def test_lanes_need_gradients_through_all_loops(T: int, rule: Any, fits: bool) -> None:
    found = problem(LoopsConfig(8, T, rule), lanes=2, injection="none")
    assert ("loops.grad_loops must be all" in found) is not fits
    assert problem(LoopsConfig(8, T, rule), lanes=0) == ""


@pytest.mark.parametrize(
    "once", [{"injection": "none"}, {"injection": "none", "norm": "at_readout"}, "LT"]
)
def test_a_loop_that_reads_once_needs_gradients_to_its_start(once: Any) -> None:
    model = {"injection": "none", "connectivity": once} if once == "LT" else once
    asked = "loops.grad_loops must be all, got"
    for loops in (LoopsConfig(8, 3), LoopsConfig(8, 3, 7), LoopsConfig(8, 8, 8, "uniform")):
        assert asked in problem(loops, **model)
        assert asked not in problem(loops, injection="add")
    for loops in (LoopsConfig(8, 3, "all", "uniform"), LoopsConfig(8, 8), LoopsConfig(8, 3, 8)):
        assert problem(loops, **model) == ""
    assert problem(LoopsConfig(8, 3), injection="none", connectivity="FLT") == ""


EVERY = "gradients reach back through every loop of this model"


@pytest.mark.parametrize(
    ("loops", "model", "refused"),
    [
        (LoopsConfig(8, 3), {}, False),
        (LoopsConfig(8, 3, 7), {}, False),
        (LoopsConfig(8, 4, "half", "uniform"), {}, False),
        (LoopsConfig(8, 8), {}, True),
        (LoopsConfig(8, 3, "all"), {}, True),
        (LoopsConfig(1, 1, "half"), {}, True),
        (LoopsConfig(8, 3), {"family": "tied", "injection": "none"}, True),
        (LoopsConfig(8, 3), {"family": "standard", "injection": "none"}, True),
    ],
)
def test_what_concerns_loops_without_gradients_needs_some(
    loops: LoopsConfig, model: dict[str, Any], refused: bool
) -> None:
    """A precision of theirs, and their early end."""
    mixed = problem(loops, "mixed", **model)
    assert mixed == (f"precision cannot be mixed: {EVERY}" if refused else "")
    early = problem(replace(loops, stop_at=1e-3), **model)
    assert early == (f"loops.stop_at has no meaning here: {EVERY}" if refused else "")


def test_a_comparison_may_hold_a_standard_run_and_goes_where_it_is_told(tmp_path: Path) -> None:
    config = tiny_config(tmp_path)
    standard = replace(config.model, family="standard", n_layer=2, injection="none")
    for name, model in (("a", standard), ("b", config.model)):
        RunFolder(tmp_path / name).create(replace(config, model=model))
    words = f"runs=[{tmp_path}/a,{tmp_path}/b] evaluation.loops=9 folder=elsewhere device=cpu"
    (command,) = commands(["action=compare", *words.split()])
    assert (command.config.folder, command.config.device) == ("elsewhere", "cpu")
    assert command.config.evaluation.loops == 9
