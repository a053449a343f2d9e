"""Measures of runs, from a file of one's own to verdicts: of runs with few distinct prompts, since
others that learned nothing are left out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from looplab.experiments.command import main
from looplab.training.run_folder.files import read_record

_TINY = """
title: Tiny models
source: a test
measure: {measure}
claims: [{claims}]
small:
  runs:
    - {{label: "{label}", task: linear, model: looped, loops.b: 3, loops.T: 2, task.dims: 2,
       task.points: 4, model.n_embd: 8, model.n_head: 1, training.steps: 4, training.batch_size: 4,
       training.warmup: 0, curriculum.loops.start: 3, task.distinct_prompts: 8, {words}}}
  evaluation: {{prompts: 16, resamples: 20, shifts: [skewed_covariance, half_subspace,
    random_orthants, scaled_x_2]}}
"""
_OPTIMIZERS = "training.optimizer: [muon, adamw]"
_SNAPSHOTS = "training.snapshots: [[0, 2, 4]]"


def carried_out(measure: str, claims: str, label: str, words: str) -> dict[str, Any]:
    text = _TINY.format(measure=measure, claims=claims, label=label, words=words)
    Path("mine.yaml").write_text(text, encoding="utf-8")
    assert main(["experiment=mine.yaml", "jobs=1"]) == 0
    content = read_record(Path("runs/experiments/mine-small/result.json"), "experiment").content
    assert content is not None
    return content


@pytest.fixture(autouse=True)
def _in_an_empty_folder(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    undrawn: None,
) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("measure", "claims", "label", "words", "panels"),
    [
        (
            "plateau", "muon_leaves_the_plateau_first", "{training.optimizer}",
            f"{_OPTIMIZERS}, {_SNAPSHOTS}", 3,
        ),
        (
            "length", "length_learned_positions_fail", "{model.block}",
            "model.block: [gpt2, llama]", 1,
        ),
        ("halting", "halting_beats_a_fixed_number", "looped", "seed: 0", 1),
    ],
)  # fmt: skip
def test_a_measure_draws_and_its_claims_are_judged(
    measure: str, claims: str, label: str, words: str, panels: int
) -> None:
    found = carried_out(measure, claims, label, words)
    assert len(found["panels"]) == panels
    assert found["missing"] == []
    (verdict,) = found["verdicts"]
    assert verdict["mean"] is not None or verdict["note"]
