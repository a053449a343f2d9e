"""How far an experiment's trainings are, and the plan."""

from pathlib import Path

from looplab.experiments.definition import load, members_of
from looplab.experiments.plan import plan
from looplab.experiments.settings import ExperimentSettings
from looplab.training import train


def test_a_plan_lists_runs_and_trains_none(tiny: Path) -> None:
    settings = ExperimentSettings((str(tiny),), action="plan", jobs=2)
    text = plan(settings)
    assert text.count("new") == 6
    assert "6 of 6 runs are to be trained: about" in text
    assert "with 2 at once" in text
    assert not Path("runs").exists()
    train(members_of(load(str(tiny)), "small")[0].config)
    text = plan(settings)
    assert "5 of 6 runs are to be trained" in text
    assert text.count("finished") == 1
