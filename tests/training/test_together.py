"""Models trained together: each ends where it would have ended alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from reloop.conf.schema import (
    Config,
    CurriculumConfig,
    GrowthConfig,
    LoopsConfig,
    ModelConfig,
    TaskConfig,
    TrainingConfig,
)
from reloop.training.assemble import build_curriculum, build_model, build_task
from reloop.training.step import Trainer
from reloop.training.together import Together

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


def trainer_of(config: Config) -> Trainer:
    task = build_task(config)
    return Trainer(config, task, build_curriculum(config, task), build_model(config, task))


def changed(config: Config, part: str, **settings: Any) -> Config:
    return replace(config, **{part: replace(getattr(config, part), **settings)})


MUON = changed(CONFIG, "training", optimizer="muon", muon_rate=0.01, ema_decay=0.9, clip=0.5)


def seeds_of(config: Config, *seeds: int) -> list[Config]:
    return [replace(config, seed=seed) for seed in seeds]


UNNORMED = changed(
    CONFIG, "model", injection="none", norm="at_readout", residual_scaling="factored"
)
LLAMA = changed(CONFIG, "model", block="llama", n_layer=2)
SHARDS = changed(CONFIG, "training", shards=2, targets="posterior_mean")

TEXT = replace(
    changed(CONFIG, "model", block="llama", n_positions=6),
    task=TaskConfig("language", dims=1, points=6),
    curriculum=CurriculumConfig(),
)


@pytest.mark.parametrize(
    "configs",
    [
        pytest.param(seeds_of(CONFIG, 0, 1, 2), id="seeds", marks=pytest.mark.slow),
        pytest.param(
            [CONFIG, changed(CONFIG, "training", learning_rate=4e-3, init_std=0.1, clip=0.5)],
            id="rates, initial weights and clipping",
        ),
        pytest.param(seeds_of(changed(CONFIG, "training", ema_decay=0.9), 0, 1), id="averages"),
        pytest.param(seeds_of(LLAMA, 0, 1), id="llama", marks=pytest.mark.slow),
        pytest.param(seeds_of(TEXT, 0, 1), id="text"),
        pytest.param(seeds_of(UNNORMED, 0, 1), id="factored residual scaling"),
        pytest.param(seeds_of(SHARDS, 0, 1), id="shards and posterior means"),
    ],
)
def test_each_member_ends_where_it_would_alone(configs: list[Config]) -> None:
    """Within 1e-5 after 100 steps, optimiser's state and average included. But for the keys' bias:
    softmax does not look at it, so that its gradient is rounding alone, which Adam blows up."""
    members, alone = [trainer_of(c) for c in configs], [trainer_of(c) for c in configs]
    together = Together(members)
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
    members = [trainer_of(config) for config in seeds_of(MUON, 0, 1)]
    alone, nudged = trainer_of(MUON), trainer_of(MUON)
    with torch.no_grad():
        nudged.model.read_in.weight.mul_(1 + 2**-23)
    together = Together(members)
    for step in range(100):
        for trainer in (together, alone, nudged):
            trainer.update(step)
    prompts = alone.task.sample(torch.Generator().manual_seed(5), 256, 5)
    with torch.no_grad():
        own, moved, found = (t.model(prompts, 4) for t in (alone, nudged, members[0]))
    floor = (moved - own).square().mean().sqrt()
    assert 0 < floor < 0.05
    assert (found - own).square().mean().sqrt() < 3 * floor


def test_one_that_breaks_leaves_the_others_alone() -> None:
    configs = [replace(CONFIG, seed=seed) for seed in (0, 1)]
    members, other = [trainer_of(each) for each in configs], trainer_of(configs[1])
    with torch.no_grad():
        members[0].model.read_out.weight.fill_(float("inf"))
    together = Together(members)
    for step in range(5):
        together.update(step)
        other.update(step)
    assert members[0].fetch().bad_step == 0
    assert members[1].fetch().bad_step is None
    for name, tensor in other.model.state_dict().items():
        torch.testing.assert_close(members[1].model.state_dict()[name], tensor, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("part", "settings", "key"),
    [
        ("model", {"n_embd": 32}, "model.n_embd"),
        ("loops", {"b": 5}, "loops.b"),
        ("training", {"batch_size": 16}, "training.batch_size"),
        ("task", {"points": 4}, "task.points"),
    ],
)
def test_members_of_another_shape_are_refused(
    part: str, settings: dict[str, Any], key: str
) -> None:
    other = changed(CONFIG, part, **settings)
    with pytest.raises(ValueError, match=f"differ in {key}"):
        Together([trainer_of(CONFIG), trainer_of(other)])


def test_loops_drawn_by_seed_are_refused(tmp_path: Path) -> None:
    drawn = replace(
        changed(CONFIG, "loops", sampling="uniform", T=1, grad_loops="all"),
        curriculum=CurriculumConfig(),
    )
    with pytest.raises(ValueError, match="differ between seeds"):
        Together([trainer_of(drawn), trainer_of(replace(drawn, seed=1))])


def test_loops_that_end_by_their_states_are_refused() -> None:
    stopping = changed(CONFIG, "loops", b=4, T=2, stop_at=0.1)
    with pytest.raises(ValueError, match=r"loops\.stop_at ends the loops of each run"):
        Together([trainer_of(stopping), trainer_of(replace(stopping, seed=1))])
