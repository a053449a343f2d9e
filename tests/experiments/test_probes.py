"""Probes of an experiment's runs: by label, kept in the run folders, drawn as numbers."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from looplab.conf.schema import TaskConfig
from looplab.evaluation.evaluated_run import EvaluatedRun
from looplab.experiments import probe_rates
from looplab.experiments.probes import answer
from looplab.experiments.question import Answer, Request
from looplab.training import train
from tests.conftest import tiny_config
from tests.experiments.checks import check_found_again, check_panels

pytestmark = pytest.mark.usefixtures("undrawn")
ENTRY: dict[str, Any] = {
    "steps": 3, "batch_size": 8, "seeds": 1, "prompts": 20, "resamples": 20, "device": "cpu",
}  # fmt: skip


def trained(folder: Path, family: str, seed: int) -> EvaluatedRun:
    config = tiny_config(folder)
    model = config.model
    if family == "standard":
        model = replace(model, family="standard", n_layer=2, injection="none")
    task, training = TaskConfig("linear", 3, 7), replace(config.training, steps=4)
    run = train(replace(config, task=task, model=model, training=training, seed=seed))
    return EvaluatedRun(family, run.config, run.step, {}, path=str(run.path))


def test_runs_are_probed_once_and_their_seeds_drawn_together(tmp_path: Path) -> None:
    runs = [trained(tmp_path, *of) for of in (("looped", 0), ("looped", 1), ("standard", 0))]

    def asked(stored: bool) -> Answer:
        return answer(Request([ENTRY], runs, str(tmp_path), stored_only=stored))

    nothing = asked(True)
    assert len(nothing.missing) == 3
    command = f"not measured yet: python -m probing run={runs[1].path} steps=3 "
    assert nothing.missing[1].startswith(f"probes of looped, seed 1: {command}")

    found = check_found_again(asked)
    probed = found.results["probing"]
    assert [(label, len(results)) for label, results in probed.items()] == [
        ("looped", 2), ("standard", 1)
    ]  # fmt: skip
    assert {result["family"] for result in probed["looped"]} == {"looped"}
    names = [panel.name for panel in found.panels]
    assert names == ["probing-gradient", "probing-least-squares"]
    looped, *_ = found.panels[0].curves
    targets = [result["targets"]["gradient"] for result in probed["looped"]]
    means = np.mean([target["error"]["mean"] for target in targets], axis=0)
    assert looped.mean == pytest.approx(means.tolist())


def test_each_rate_has_probes_of_its_own(tmp_path: Path) -> None:
    runs = [trained(tmp_path, "looped", seed) for seed in (0, 1)]
    entries = [{**ENTRY, "learning_rate": rate} for rate in (0.01, 0.001, 0.0001)]
    half = probe_rates.answer(Request(entries[:1], runs, str(tmp_path)))
    assert list(half.results["probe_rates"]) == ["0.01"]
    some = probe_rates.answer(Request(entries, runs, str(tmp_path), stored_only=True))
    assert (len(some.missing), list(some.panels)) == (4, [])

    found = probe_rates.answer(Request(entries, runs, str(tmp_path)))
    assert not found.missing
    by_rate = found.results["probe_rates"]
    assert by_rate["0.01"] == half.results["probe_rates"]["0.01"]
    errors = [
        probed["looped"][0]["targets"]["gradient"]["error"]["mean"][-1]
        for probed in by_rate.values()
    ]
    assert len(set(errors)) == 3
    names = ["probe-rates-gradient", "probe-rates-least-squares"]
    assert check_panels(found.panels) == names
