"""Settings in words: what legends, tables and sentences call them."""

from typing import Any

import pytest

from looplab.conf.in_words import in_words, labels_of, labels_of_settings
from looplab.conf.schema import Config


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


def test_labels_say_in_what_runs_differ() -> None:
    words = ("task=linear", "task=linear loops.b=6 loops.T=3", "task=linear model=standard")
    configs = [Config.of(*each.split()) for each in words]
    assert labels_of(configs, ()) == ["looped, b = 12, T = 4", "looped, b = 6, T = 3", "standard"]
    assert labels_of(configs[:2], ("loops.T",)) == ["b = 12", "b = 6"]
    assert labels_of(configs[:1] * 2, ()) == ["looped", "looped"]
    far = [configs[0], Config.of("task=linear", "recipe=paper")]
    assert len({*labels_of(far, ("recipe",))}) == 2


def test_labels_have_a_setting_that_the_first_run_lacks() -> None:
    """As a user's task has one beside runs of other tasks."""
    linear: dict[str, Any] = {"model.family": "looped", "task.name": "linear"}
    waves: dict[str, Any] = {"model.family": "looped", "task.name": "waves"}
    settings = [
        linear,
        waves | {"task.settings.frequency": 1},
        waves | {"task.settings.frequency": 2},
    ]
    assert labels_of_settings(settings, ()) == [
        "linear",
        "waves, frequency = 1",
        "waves, frequency = 2",
    ]
