"""An evaluation's files agree with each other and with a computation beside them."""

from __future__ import annotations

import csv
import json
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

from conf.schema import EvaluationConfig
from evaluation import evaluate, load_run
from evaluation.errors import evaluation_prompts
from evaluation.report import seeds_table, table
from training import Run, RunError

SETTINGS = EvaluationConfig(prompts=64, resamples=50, batch_size=24, loops=6)


def test_errors_are_those_of_the_model_on_the_evaluation_prompts(tiny_run: Run) -> None:
    result = evaluate(tiny_run, SETTINGS)
    prompts = evaluation_prompts(tiny_run.task, 64, 7, SETTINGS.seed)
    with torch.no_grad():
        at_b = tiny_run.model(prompts, loops=4, window=1)[0]
        at_six = tiny_run.model(prompts, loops=6, window=1)[0]
    saved = np.load(tiny_run.path / "evaluation.npz")
    for name, predictions in (("model_at_b", at_b), ("model", at_six)):
        errors = ((predictions - prompts.ys).square() / 2).numpy()
        np.testing.assert_allclose(saved[name], errors, rtol=1e-5)
        np.testing.assert_allclose(result["by_examples"][name]["mean"], errors.mean(0), rtol=1e-5)
    assert result["by_loop"]["loop"] == list(range(1, 13))  # 3 b
    np.testing.assert_allclose(saved["by_loop"][:, 3], saved["model_at_b"][:, -1], rtol=1e-5)
    assert (result["b"], result["loops"], result["divisor"]) == (4, 6, 2)
    assert set(result["by_examples"]) == {"k", "model", "model_at_b", *tiny_run.task.baselines}


def test_the_pictures_come_with_the_values_they_show(tiny_run: Run) -> None:
    result = evaluate(tiny_run, SETTINGS)
    figures = tiny_run.path / "figures"
    for name in ("error_by_examples", "error_by_loop"):
        assert (figures / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    with open(figures / "error_by_examples.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["k"]) for row in rows] == result["by_examples"]["k"]
    for part in ("mean", "low", "high"):
        values = [float(row[f"lasso_{part}"]) for row in rows]
        assert values == result["by_examples"]["lasso"][part]
    with open(figures / "error_by_loop.csv", encoding="utf-8") as file:
        loops = list(csv.DictReader(file))
    assert [float(row["model_mean"]) for row in loops] == result["by_loop"]["model"]["mean"]


def test_a_result_is_kept_until_other_settings_are_asked_for(
    tiny_run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = evaluate(tiny_run, SETTINGS)
    assert first == json.loads((tiny_run.path / "evaluation.json").read_text())
    changed = evaluate(tiny_run, replace(SETTINGS, loops=3))
    assert changed["loops"] == 3

    def fail(*_: object) -> None:
        raise AssertionError("measured again")

    # By the module's entry: the package's attribute of that name is the function.
    monkeypatch.setattr(sys.modules["evaluation.evaluate"], "model_errors", fail)
    assert evaluate(tiny_run, replace(SETTINGS, loops=3)) == changed
    with pytest.raises(AssertionError, match="measured again"):
        evaluate(tiny_run, SETTINGS)


def test_a_loaded_run_predicts_as_the_trained_one(tiny_run: Run) -> None:
    loaded = load_run(tiny_run.path)
    prompts = evaluation_prompts(tiny_run.task, 8, 7, 0)
    assert (loaded.config, loaded.task, loaded.step) == (tiny_run.config, tiny_run.task, 40)
    assert not loaded.model.training
    ours, theirs = loaded.model(prompts, 9, 9), tiny_run.model(prompts, 9, 9)
    assert ours.shape == (9, 8, 7)
    assert torch.equal(ours, theirs)


def test_a_folder_without_a_checkpoint_is_refused(tiny_run: Run) -> None:
    for path in (tiny_run.path / "checkpoints").iterdir():
        path.unlink()
    with pytest.raises(RunError, match="no checkpoint that can be read"):
        load_run(tiny_run.path)


def test_the_table_has_the_model_and_every_baseline(tiny_run: Run) -> None:
    result = evaluate(tiny_run, SETTINGS)
    text = table(result)
    assert text.splitlines()[0].split() == ["k", "0", "1", "2", "3", "4", "6"]
    for label in ("looped, 4 loops", "looped, 6 loops", "least squares", "Lasso"):
        assert label in text
    seeds = seeds_table({0: result, 1: result})
    assert [line.split()[0] for line in seeds.splitlines()] == [
        "k",
        "seed",
        "seed",
        "mean",
        "spread",
    ]
