"""Settings in words: what legends, tables and sentences call them."""

from typing import Any

import pytest

from looplab.conf.in_words import in_words, labels_of_settings


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("model.injection", "none", "without injection"),
        ("loops.b", "20", "b = 20"),
        ("model.n_layer", 1, "1 layer"),
        ("training.steps", 500_000, "500,000 steps"),
        ("training.learning_rate", "1e-3", "rate 0.001"),
        ("training.recompute", True, "with recompute"),
        ("curriculum.dims.start", 5, "dims start = 5"),
    ],
)
def test_a_setting_is_said_the_same_typed_or_configured(key: str, value: Any, words: str) -> None:
    assert in_words(key, value) == words


def test_labels_have_a_setting_that_the_first_run_lacks() -> None:
    """As a user's task has one beside runs of other tasks."""
    linear: dict[str, Any] = {"model.family": "looped", "task.name": "linear"}
    waves: dict[str, Any] = {"model.family": "looped", "task.name": "waves"}
    settings = [
        linear,
        waves | {"task.settings.frequency": 1},
        waves | {"task.settings.frequency": 2},
    ]
    assert labels_of_settings(settings) == [
        "linear",
        "waves, frequency = 1",
        "waves, frequency = 2",
    ]
