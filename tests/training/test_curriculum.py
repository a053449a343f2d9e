"""The curriculum of a training: its stages, loops that are drawn and gradients cut where they are
told to be; and one that the training ends before, which is said before it as after it."""

import json
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any

import pytest

from looplab import main as run
from looplab.conf.schema import Config, CurriculumConfig, GrowthConfig, LoopsConfig, ModelConfig
from looplab.curricula import Curriculum, Stage
from looplab.evaluation.remarks import remarks
from looplab.training import train
from looplab.training.assemble import build_curriculum, build_task
from looplab.training.curriculum_end import shortened
from looplab.training.run_folder.run import run_folder
from looplab.training.step import capture_obstacle
from tests.conftest import tiny_config
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


_WORDS = ("task=linear", "loops.b=20")


def _line(*words: str) -> str:
    config = Config.of(*_WORDS, *words)
    return "".join(shortened([(config, build_task(config))]))


def test_a_short_run_is_told_the_steps_that_are_enough() -> None:
    """12 loops at first, 2 more after 600 steps and after each 200 of the next: 20 after 1,200."""
    remedy = "curriculum.proportional=true if the run was shortened, else training.steps=1201"
    assert _line("training.steps=800") == f"loops 14 of 20 at the end; {remedy}"
    assert _line("training.steps=1200") == f"loops 18 of 20 at the end; {remedy}"
    for enough in ("1201", "800 curriculum.proportional=true", "0"):
        assert _line(*f"training.steps={enough}".split()) == ""


def test_the_first_lines_of_a_training_say_what_its_remarks_say(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tiny_config(tmp_path)
    trained = train(config)
    (said,) = shortened([(config, build_task(config))])
    assert capsys.readouterr().out.splitlines()[1] == f"  {said}"
    left, _, _ = said.partition(" at the end; ")
    assert remarks(trained)[0] == f"curriculum unfinished: {left}"


def test_plans_of_a_run_and_of_a_grid_say_it(capsys: pytest.CaptureFixture[str]) -> None:
    words = [*_WORDS, "training.steps=800", "action=plan"]
    assert run.main(words) == 0
    assert f"\n{_line('training.steps=800')}\n" in capsys.readouterr().out
    assert run.main(["-m", "task=linear", "loops.b=12,16,20", *words[2:]]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == f"2 of 3 runs: {_line('training.steps=800')}"
