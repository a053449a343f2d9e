"""The runs of experiments: one for all who want it, mended where it is damaged; how far they are,
and the plan."""

from dataclasses import replace
from pathlib import Path

import pytest

from looplab.experiments.command import main
from looplab.experiments.definition import Member, load, members_of
from looplab.experiments.many_runs import train_all
from looplab.experiments.plan import plan
from looplab.experiments.settings import ExperimentSettings
from looplab.training import train
from looplab.training.run_folder.checkpoint import saved_steps, snapshots_of
from looplab.training.run_folder.run import run_folder


def test_a_run_has_the_snapshots_that_each_experiment_asks_for(tiny: Path) -> None:
    member = members_of(load(str(tiny)), "small")[0]

    def with_snapshots(*steps: int) -> Member:
        training = replace(member.config.training, snapshots=steps)
        return replace(member, config=replace(member.config, training=training))

    asked = [with_snapshots(), with_snapshots(0, 2), with_snapshots(2, 4)]
    assert train_all(asked, Path("runs/logs"), 1) == {}
    assert list(snapshots_of(run_folder(member.config).path)) == [0, 2, 4]


def test_a_run_that_cannot_be_read_is_trained_again(
    trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    member = members_of(load(str(trained)), "small")[0]
    checkpoints = run_folder(member.config).path / "checkpoints"
    for path in checkpoints.glob("*.safetensors"):
        path.write_bytes(b"damaged")
    assert main([f"experiment={trained}", "jobs=1"]) == 0
    assert saved_steps(checkpoints)[-1] == member.config.training.steps
    assert "Traceback" not in capsys.readouterr().err


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
