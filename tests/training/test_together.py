"""Models trained together: each ends where it would have ended alone, has its run folder, can be
gone on with alone, and fails alone."""

import os
import shutil
import signal
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from looplab.conf.mistakes import ConfigError
from looplab.conf.schema import (
    Config,
    CurriculumConfig,
    GrowthConfig,
    LoopsConfig,
    ModelConfig,
    TaskConfig,
    TrainingConfig,
)
from looplab.training import Interrupted, Run, RunError, train, train_together
from looplab.training.run_folder.run import run_folder
from looplab.training.together import Ensemble, difference
from tests.training.tiny import interrupted, make_trainer, spoil_ys, tiny

CONFIG = Config(
    task=TaskConfig("linear", dims=3, points=5),
    model=ModelConfig(n_embd=16, n_head=2, n_positions=5),
    loops=LoopsConfig(b=4, T=2),
    curriculum=CurriculumConfig(
        dims=GrowthConfig(1, 1, (30,)),
        loops=GrowthConfig(2, 1, (30,)),
        points=GrowthConfig(3, 1, (40,)),
    ),
    training=TrainingConfig(steps=100, batch_size=8, learning_rate=1e-3, warmup=10, decay=0.3),
)


def changed(config: Config, part: str, **settings: Any) -> Config:
    return replace(config, **{part: replace(getattr(config, part), **settings)})


MUON = changed(CONFIG, "training", optimizer="muon", muon_rate=0.01, ema_decay=0.9, clip=0.5)


def seeds_of(config: Config, *seeds: int) -> list[Config]:
    return [replace(config, seed=seed) for seed in seeds]


UNNORMED = changed(
    CONFIG, "model", injection="none", norm="at_readout", residual_scaling="factored"
)
SHARDS = changed(CONFIG, "training", shards=2, targets="posterior_mean", ema_decay=0.9)

TEXT = replace(
    changed(CONFIG, "model", block="llama", n_positions=6),
    task=TaskConfig("language", dims=1, points=6),
    curriculum=CurriculumConfig(),
)


@pytest.mark.parametrize(
    "configs",
    [
        pytest.param(
            [CONFIG, changed(CONFIG, "training", learning_rate=4e-3, init_std=0.1, clip=0.5)],
            id="rates, initial weights and clipping",
        ),
        pytest.param(seeds_of(TEXT, 0, 1), id="text"),
        pytest.param(seeds_of(UNNORMED, 0, 1), id="factored residual scaling"),
        pytest.param(seeds_of(SHARDS, 0, 1), id="shards, posterior means and averages"),
    ],
)
def test_each_member_ends_where_it_would_alone(configs: list[Config]) -> None:
    """Within 1e-5 after 100 steps, optimiser's state and average included. But for the keys' bias:
    softmax does not look at it, so that its gradient is rounding alone, which Adam blows up."""
    members, alone = [make_trainer(c) for c in configs], [make_trainer(c) for c in configs]
    together = Ensemble(members)
    for step in range(100):
        together.update(step)
        for trainer in alone:
            trainer.update(step)
    for member, other in zip(members, alone, strict=True):
        for name, tensor in other.state().items():
            found, expected = (without_keys(name, each) for each in (member.state()[name], tensor))
            torch.testing.assert_close(found, expected, rtol=0, atol=1e-5, msg=name)
        assert member.fetch().loss == pytest.approx(other.fetch().loss, rel=1e-5)


def without_keys(name: str, tensor: Tensor) -> Tensor:
    if not name.endswith("qkv.bias") or not tensor.ndim:
        return tensor
    query, _, value = tensor.chunk(3)
    return torch.cat((query, value))


def test_with_muon_a_member_is_off_by_what_rounding_does() -> None:
    """Muon's steps make the smallest parts of a gradient, which are rounding, as large as the
    largest. So two runs alone, one of them begun one rounding away, part as far."""
    members = [make_trainer(config) for config in seeds_of(MUON, 0, 1)]
    alone, nudged = make_trainer(MUON), make_trainer(MUON)
    with torch.no_grad():
        nudged.model.read_in.weight.mul_(1 + 2**-23)
    together = Ensemble(members)
    for step in range(100):
        for trainer in (together, alone, nudged):
            trainer.update(step)
    prompts = alone.task.sample(torch.Generator().manual_seed(5), 256, 5)
    with torch.no_grad():
        own, moved, found = (t.model(prompts, 4) for t in (alone, nudged, members[0]))
    floor = (moved - own).square().mean().sqrt()
    assert 0 < floor < 0.05
    assert (found - own).square().mean().sqrt() < 3 * floor


def test_what_another_shape_differs_in() -> None:
    assert difference(CONFIG, changed(CONFIG, "model", n_embd=32)) == "model.n_embd"
    assert difference(CONFIG, changed(CONFIG, "task", points=4)) == "task.points"


def of_seeds(folder: Path, *seeds: int, **training: Any) -> list[Config]:
    return [replace(tiny(folder, **training), seed=seed) for seed in seeds]


def finished(runs: Sequence[Run | RunError]) -> list[Run]:
    assert all(isinstance(run, Run) for run in runs)
    return [run for run in runs if isinstance(run, Run)]


def after_step(monkeypatch: pytest.MonkeyPatch, step: int, act: Callable[[], object]) -> None:
    """Call `act` when step `step` has been made by several runs."""
    update = Ensemble.update

    def wrapped(self: Ensemble, made: int) -> None:
        update(self, made)
        if made == step:
            act()

    monkeypatch.setattr(Ensemble, "update", wrapped)


def assert_close(run: Run, other: Run) -> None:
    """Weights within 1e-5, but for the keys' bias, which predictions do not depend on."""
    for name, tensor in other.model.state_dict().items():
        if not name.endswith("qkv.bias"):
            found = run.model.state_dict()[name]
            torch.testing.assert_close(found, tensor, rtol=0, atol=1e-5, msg=name)


def test_one_that_stands_further_back_catches_up(tmp_path: Path) -> None:
    first, second = of_seeds(tmp_path, 0, 1)
    interrupted(first, 32)
    runs = finished(train_together([first, second]))
    for run, config in zip(runs, of_seeds(tmp_path / "alone", 0, 1), strict=True):
        assert_close(run, train(config))


def test_a_signal_saves_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    configs = of_seeds(tmp_path, 0, 1)
    whole = finished(train_together(of_seeds(tmp_path / "whole", 0, 1)))
    with monkeypatch.context() as patch:
        after_step(patch, 12, lambda: os.kill(os.getpid(), signal.SIGTERM))
        with pytest.raises(Interrupted, match="saved after step 13") as stop:
            train_together(configs)
    assert stop.value.exit_code == 143
    copied = shutil.copytree(tmp_path, tmp_path / "copied")
    assert_close(train(replace(configs[1], folder=str(copied))), whole[1])  # alone
    for run, other in zip(finished(train_together(configs)), whole, strict=True):
        assert run.step == 60
        for name, tensor in other.model.state_dict().items():
            assert torch.equal(run.model.state_dict()[name], tensor), name


def test_one_that_diverges_is_recorded_and_the_rest_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configs = of_seeds(tmp_path, 0, 1, 2)
    with monkeypatch.context() as patch:
        spoil_ys(
            patch, float("nan"), lambda trainer, step, _: trainer.config.seed == 1 and step == 20
        )
        runs = train_together(configs)
    failed = runs[1]
    assert isinstance(failed, RunError)
    assert "step 21 gave a loss or gradient that is not finite" in str(failed)
    assert run_folder(configs[1]).status()["state"] == "failed"
    for run, config in zip(runs, of_seeds(tmp_path / "alone", 0, 1, 2), strict=True):
        if isinstance(run, Run):
            assert_close(run, train(config))


@pytest.mark.parametrize(
    ("change", "key"),
    [({"batch_size": 16}, "training.batch_size"), ({"log_every": 7}, "training.log_every")],
)
def test_what_cannot_differ_is_named(change: dict[str, Any], key: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"{key} cannot differ"):
        train_together([tiny(tmp_path), replace(tiny(tmp_path, **change), seed=1)])
    assert not any(tmp_path.iterdir())
