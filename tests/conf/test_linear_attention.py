"""Settings that a loop of linear attention does not have are refused in one line."""

from __future__ import annotations

import pytest

from reloop.conf.mistakes import ConfigError
from reloop.conf.schema import Config

_WORDS = ("task=linear", "model=linear_attention")


def test_its_width_is_that_of_the_inputs_at_every_scale() -> None:
    for scale in ("small", "paper"):
        config = Config.of(*_WORDS, f"scale={scale}")
        assert config.model.n_embd == config.task.dims
        assert config.loops.T == 1


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("model.n_embd=7", "model.n_embd must be task.dims=5 with model.injection=linear_att"),
        ("model.n_layer=2", "model.n_layer must be 1 with model.injection=linear_attention"),
        ("model.norm=at_readout", "model.norm must be in_loop with model.injection=linear_att"),
        ("model.coda=1", "model.coda must be 0 with model.injection=linear_attention"),
    ],
)
def test_what_it_does_not_have_is_refused(word: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Config.of(*_WORDS, word)


def test_a_condition_number_below_one_is_refused_before_anything_starts() -> None:
    with pytest.raises(ConfigError, match=r"task\.condition must be at least 1, got 0\.5"):
        Config.of("task=conditioned_linear", "task.condition=0.5")
