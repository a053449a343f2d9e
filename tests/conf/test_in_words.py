"""Settings in words: what legends, tables and sentences call them."""

from typing import Any

import pytest

from looplab.conf.in_words import in_words


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
