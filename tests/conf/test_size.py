"""Sizes far beyond any machine are one line that names the setting; those of the papers compose."""

from __future__ import annotations

import pytest

from reloop.conf.compose import commands
from reloop.conf.mistakes import ConfigError


@pytest.mark.parametrize(
    ("word", "key"),
    [
        ("model.n_embd=10000000", "model.n_embd"),
        ("model.n_layer=100000000", "model.n_layer"),
        ("loops.b=100000000", "loops.b"),
        ("training.batch_size=10000000000", "training.batch_size"),
        ("task.points=100000000000", "task.points"),
        ("evaluation.prompts=100000000000", "evaluation.prompts"),
        ("evaluation.max_loops=100000000", "evaluation.max_loops"),
        ("evaluation.resamples=10000000000", "evaluation.resamples"),
        ("task.depth=60", "task.depth"),
    ],
)
def test_a_size_that_no_machine_holds(word: str, key: str) -> None:
    task = "decision_tree" if "depth" in word else "linear"
    words = [f"task={task}", word]
    if key == "task.points":  # at most as many as positions
        words.append("model.n_positions=100000000000")
    with pytest.raises(ConfigError, match=rf"^{key} is [\d,]+: .* far more than this machine"):
        commands(words)
