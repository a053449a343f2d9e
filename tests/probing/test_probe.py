"""Probing a run from end to end: what is kept, and how it goes on."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from looplab.conf.mistakes import ConfigError
from looplab.evaluation.bootstrap import numbers
from looplab.evaluation.load import load_run
from looplab.probing import fit as fit_module
from looplab.probing.__main__ import main
from looplab.probing.fit import Fit
from looplab.probing.probe import probe, table
from looplab.probing.settings import ProbingSettings
from looplab.training import Run, train
from tests.conftest import batches_of, tiny_config

pytestmark = pytest.mark.usefixtures("undrawn")

SETTINGS = ProbingSettings(
    run="given", steps=6, batch_size=16, prompts=40, resamples=20, seeds=2, device="cpu"
)


def test_what_is_kept_is_what_was_measured(linear_run: Run) -> None:
    result = probe(linear_run, SETTINGS)
    shown = json.loads((linear_run.path / "probing.json").read_text())
    assert {key: shown[key] for key in result} == result
    arrays = np.load(linear_run.path / "probing.npz")
    layers, lengths = 5, 7  # the read-in and four loops
    for name in ("gradient", "least_squares"):
        target, errors = result["targets"][name], arrays[f"{name}/probes"]
        assert errors.shape == (layers, 2, lengths, 40)
        assert arrays[f"{name}/linear"].shape == (layers, lengths, 40)
        means = errors.mean((1, 2, 3), dtype=np.float64)
        np.testing.assert_allclose(numbers(target["error"]["mean"]), means)
    assert table(result).count("control (trained with w = 1)") == 2


def test_probes_learn_where_gradients_are_off(linear_run: Run) -> None:
    settings = replace(SETTINGS, steps=2)
    expected = probe(linear_run, settings)
    for name in ("probing", "cache"):
        shutil.rmtree(linear_run.path / name, ignore_errors=True)
    with torch.inference_mode():
        assert probe(load_run(linear_run.path), settings) == expected


def test_an_interrupted_probing_ends_as_one_that_was_not(
    linear_run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = probe(linear_run, SETTINGS)
    arrays = dict(np.load(linear_run.path / "probing.npz"))
    other = replace(SETTINGS, seed=3)
    with batches_of(linear_run.model) as read:
        reference = probe(linear_run, other)
    # Both kinds of probes learn from a batch at each of six steps.
    assert read.count(SETTINGS.batch_size) == 12
    three_steps = read.index(SETTINGS.batch_size) + 6
    for path in sorted((linear_run.path / "probing").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    (linear_run.path / "probing.json").unlink()
    monkeypatch.setattr(fit_module, "_BETWEEN_SAVES", 0.0)
    with batches_of(linear_run.model, three_steps), pytest.raises(KeyboardInterrupt):
        probe(linear_run, other)
    assert not (linear_run.path / "probing.json").exists()
    with batches_of(linear_run.model) as rest:
        assert probe(linear_run, other) == reference
    assert rest.count(SETTINGS.batch_size) == 6
    assert probe(linear_run, SETTINGS) == whole
    for name, values in np.load(linear_run.path / "probing.npz").items():
        np.testing.assert_array_equal(values, arrays[name])


def test_layer_0_is_the_read_in_and_the_rest_come_before_the_norm(
    linear_run: Run, tmp_path: Path
) -> None:
    """Whitened as the paper's probes meet them, and as they are in the code's protocol."""
    paper = Fit(linear_run, SETTINGS, 5, tmp_path)
    reference = Fit(linear_run, replace(SETTINGS, protocol="reference"), 5, tmp_path)
    prompts, _ = paper.draw("test")
    unrolled = list(linear_run.model.unroll(prompts, 4))
    for layer, part, states in reference.states(prompts):
        assert part == slice(0, part.stop)
        assert torch.equal(states, unrolled[layer][0].raw)
    for layer, _, states in paper.states(prompts):
        assert torch.equal(states, paper.whiten(layer, unrolled[layer][0].raw))
    assert not torch.equal(unrolled[1][0].raw, unrolled[1][0].stream)


def test_other_weights_are_probed_again_and_lost_figures_drawn_again(linear_run: Run) -> None:
    settings = replace(
        SETTINGS, steps=1, seeds=1, targets=("residual",), control=False, learning_rate=5e-3
    )
    probe(linear_run, settings)
    assert not list((linear_run.path / "probing").glob("probes-*"))
    figures = linear_run.path / "probing" / "figures"
    for path in figures.iterdir():
        path.unlink()

    def probed(settings: ProbingSettings) -> bool:
        with batches_of(linear_run.model) as read:
            result = probe(linear_run, settings)
        assert result["settings"]["steps"] == settings.steps
        return bool(read)

    assert not probed(settings)
    assert (figures / "residual_by_layer.png").exists()
    changes: dict[str, Any] = {"steps": 2, "prompts": 30, "protocol": "reference"}
    for name, value in changes.items():
        settings = replace(settings, **{name: value})
        assert probed(settings), name
    with torch.no_grad():
        linear_run.model.read_in.weight.mul_(2)
    assert probed(settings)


def test_what_cannot_be_probed_is_refused(tmp_path: Path, linear_run: Run) -> None:
    """With nothing kept."""
    with pytest.raises(ConfigError, match="targets cannot hold support"):
        probe(linear_run, replace(SETTINGS, targets=("support",)))
    config = tiny_config(tmp_path)
    model = replace(config.model, family="standard", n_layer=2, injection="none")
    standard = replace(config, model=model, training=replace(config.training, steps=1))
    with pytest.raises(ConfigError, match="loops is 3, but this model has weights for 2 and no"):
        probe(train(standard), replace(SETTINGS, loops=3))
    assert not (linear_run.path / "probing.json").exists()


def test_one_command(linear_run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    words = [f"run={linear_run.path}", "steps=2", "batch_size=8", "prompts=20", "resamples=5"]
    assert main(words) == 0
    assert "w_OLS: mean over lengths 1 to 7" in capsys.readouterr().out
    assert main([*words, "targets=[wieghts]"]) == 2
    assert "did you mean 'weights'" in capsys.readouterr().err
    assert load_run(linear_run.path).step == 40
