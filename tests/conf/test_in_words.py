"""Settings in words: what legends, tables and sentences call them."""

from typing import Any

import pytest

from looplab.conf.in_words import in_words, told_apart


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("model.injection", "gated", "gated injection"),
        ("model.injection", "none", "without injection"),
        ("loops.b", "20", "b = 20"),
        ("model.n_layer", 1, "1 layer"),
        ("training.steps", 500_000, "500,000 steps"),
        ("training.learning_rate", "1e-3", "rate 0.001"),
        ("training.recompute", True, "with recompute"),
        ("training.recompute", "false", "without recompute"),
        ("curriculum.dims.start", 5, "dims start = 5"),
        ("model", "standard", "standard"),
    ],
)
def test_a_setting_is_said_the_same_typed_or_configured(key: str, value: Any, words: str) -> None:
    assert in_words(key, value) == words


def test_of_many_settings_those_are_said_that_tell_runs_apart() -> None:
    many = {"a.rate": 1, "a.steps": 2, "a.clip": 3, "a.batch": 4}
    runs = [{"recipe": "fast", **many}, {"recipe": "paper", **dict.fromkeys(many, 0)}]
    assert told_apart(runs) == ["recipe fast", "recipe paper"]
    few = [{"loops.b": 4, "seed": 1, "loops.T": 2}, {"loops.b": 6, "seed": 1, "loops.T": 3}]
    assert told_apart(few) == ["b = 4, T = 2", "b = 6, T = 3"]
