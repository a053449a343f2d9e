"""Halting: predictors that are done after a chosen number of loops, and say so in their state or
not."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from torch import Tensor, nn

from looplab.conf.schema import Config, EvaluationConfig, LoopsConfig, ModelConfig, TaskConfig
from looplab.experiments import halting
from looplab.tasks import Prompts
from looplab.training import Run
from looplab.training.assemble import build_task
from tests.experiments.checks import panels_of

_SETTINGS = EvaluationConfig(prompts=64, resamples=40)
_B = 8


class Done:
    """In a model's place: off by 1 until a query is done, after 2 loops where its first input is
    positive and after 6 elsewhere, then off by .1. The state has a number for it if `tells`,
    and moves by as much in every loop unless `rests`, which stops it then."""

    def __init__(self, tells: bool, rests: bool) -> None:
        self.tells, self.rests = tells, rests

    def unroll(self, prompts: Prompts, loops: int) -> Iterator[tuple[Any, Tensor]]:
        needs = torch.where(prompts.xs[..., 0] > 0, 2, 6)
        for loop in range(loops + 1):
            done = loop >= needs
            angle = 0.5 * (needs.clamp(max=loop) if self.rests else torch.full_like(needs, loop))
            told = done.float() * self.tells
            x_states = torch.stack((10 * angle.cos(), 10 * angle.sin(), told), -1)
            stream = x_states.repeat_interleave(2, dim=1)
            yield SimpleNamespace(stream=stream), prompts.ys + torch.where(done, 0.1, 1.0)


class Halts(Done):
    """The same that halts each query, by the last number of its read-out, once it is done."""

    read_out = nn.Identity()

    def unroll(self, prompts: Prompts, loops: int) -> Iterator[tuple[Any, Tensor]]:
        for state, prediction in super().unroll(prompts, loops):
            done = (prediction - prompts.ys).abs() < 0.5
            self.read_out(torch.stack((prediction, torch.where(done, 20.0, -20.0)), -1))
            yield state, prediction


def run_of(model: Done, **loops: Any) -> Run:
    config = Config(
        task=TaskConfig("linear", 3, 6), model=ModelConfig(n_embd=3, n_head=1),
        loops=LoopsConfig(b=_B, T=2, **loops),
    )  # fmt: skip
    return Run(Path("runs/none"), config, build_task(config), cast(Any, model), 1)


def mean_ratio(key: str, *runs: Run) -> float:
    result = halting.measure(runs, _SETTINGS)
    (panel,) = panels_of(halting, result)
    assert len(panel.curves) == 2 + len(runs)  # three rules for a plain model, one for another
    (group,) = result["groups"]
    return float(group[key].mean)


def test_a_state_that_rests_is_halted_by_its_change() -> None:
    """A query is left one loop after it is done, at 3 or 7: in the mean at 5 of 6 loops, fewer with
    the error that is allowed."""
    assert 3.5 / 6 < mean_ratio("measured_over_fixed", run_of(Done(tells=False, rests=True))) < 0.95


def test_a_state_that_tells_is_halted_by_its_readout() -> None:
    """It is left at once, at 2 or 6. Its change says nothing."""
    assert mean_ratio("learned_over_measured", run_of(Done(tells=True, rests=False))) < 0.9


@pytest.mark.parametrize("kind", ["act", "ponder"])
def test_a_model_that_was_trained_to_halt_is_halted_by_its_own_shares(kind: str) -> None:
    """It is left at once, at 2 or 6, in the mean at 4; one that rests a loop later."""
    runs = [run_of(Done(tells=False, rests=True)), run_of(Halts(False, True), halt=kind)]
    assert mean_ratio(f"{kind}_over_measured", *runs) == pytest.approx(4 / 5, 0.1)
