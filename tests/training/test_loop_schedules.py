"""Loops that are drawn and gradients cut where they are told to be, in a training; and the share of
the work that is done when loops grow."""

import json
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any

import pytest

from looplab.conf.schema import Config, CurriculumConfig, GrowthConfig, LoopsConfig, ModelConfig
from looplab.curricula import Curriculum, Schedule, Stage
from looplab.training import train
from looplab.training.assemble import build_curriculum, build_task
from looplab.training.progress import Work
from looplab.training.run_folder.run import run_folder
from looplab.training.step import capture_obstacle
from tests.training.tiny import tiny


def curriculum(config: Config) -> Curriculum:
    return build_curriculum(config, build_task(config))


def drawn(folder: Path) -> Config:
    return replace(tiny(folder), loops=LoopsConfig(4, 2, "half", "poisson_lognormal"))


@pytest.mark.parametrize(
    ("family", "loops", "stages"),
    [
        ("looped", LoopsConfig(5, 2), [(2, 2, 2, 2), (4, 2, 2, 4), (5, 2, 2, 5)]),
        ("looped", LoopsConfig(5, 2, "half"), [(2, 2, 2, 2), (4, 2, 2, 4), (5, 2, 3, 5)]),
        ("looped", LoopsConfig(5, 2, "all"), [(2, 2, 2, 2), (4, 2, 4, 4), (5, 2, 5, 5)]),
        ("looped", LoopsConfig(5, 2, 3), [(2, 2, 2, 2), (4, 2, 3, 4), (5, 2, 3, 5)]),
        ("tied", LoopsConfig(5, 2), [(5, 1, 5, 5)] * 3),
        ("standard", LoopsConfig(5, 2), [(3, 1, 3, 3)] * 3),
    ],
)
def test_stages_of_each_family(
    family: Any, loops: LoopsConfig, stages: list[tuple[int, ...]], tmp_path: Path
) -> None:
    """Loops, window, reach of gradients, and the R of residual scaling; a standard model's loops
    are its three layers."""
    injection: Any = "add" if family == "looped" else "none"
    model = ModelConfig(family, 3, 16, 2, 5, injection=injection)
    growth = CurriculumConfig(loops=GrowthConfig(inc=2, intervals=(10,)))
    config = replace(tiny(tmp_path), model=model, loops=loops, curriculum=growth)
    made = [curriculum(config)(step) for step in (0, 10, 20)]
    assert [astuple(stage)[2:] for stage in made] == stages


def test_metrics_have_the_draw_of_their_step(tmp_path: Path) -> None:
    config = drawn(tmp_path)
    train(config)
    stages = [curriculum(config)(step) for step in range(60)]
    assert len({stage.loops for stage in stages}) > 5
    assert any(stage.window < stage.grad_loops < stage.loops for stage in stages)
    text = run_folder(config).metrics.read_text(encoding="utf-8")
    for record in map(json.loads, text.splitlines()):
        fields = {name: record[name] for name in Stage.__dataclass_fields__}
        assert Stage(**fields) == stages[record["step"] - 1]
        assert record["scale_loops"] == 4


def test_steps_that_cannot_be_captured(tmp_path: Path) -> None:
    """Each with drawn loops would be a stage of its own; loops.stop_at reads the states."""
    plain = tiny(tmp_path)
    stopping = replace(plain, loops=replace(plain.loops, b=4, T=2, stop_at=1e-3))
    reasons = [
        capture_obstacle(each, curriculum(each), build_task(each))
        for each in (drawn(tmp_path), stopping, plain)
    ]
    assert "draws" in reasons[0]
    assert "loops.stop_at" in reasons[1]
    assert reasons[2] == ""


def _curriculum(loops: Schedule) -> Curriculum:
    return Curriculum(Schedule.constant(5), Schedule.constant(11), loops, T=4)


def test_steps_that_cost_the_same() -> None:
    work = Work(_curriculum(Schedule.constant(12)), 1000)
    assert [work(step) for step in (0, 250, 1000)] == pytest.approx([0, 0.25, 1])


def test_loops_that_grow() -> None:
    """Half of the steps at 4 loops (4 + 2 · 4 passes), half at 20 (20 + 2 · 4)."""
    work = Work(_curriculum(Schedule(4, 20, 16, (500,))), 1000)
    assert work(500) == pytest.approx(12 / (12 + 28), abs=0.005)
    assert work(1000) == 1
