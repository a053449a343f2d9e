"""`python -m openml_eval action=ship`: a run becomes the estimators' own checkpoint."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from looplab.conf.saved import read_config
from looplab.conf.schema import Config
from looplab.openml_eval.estimators import LoopedClassifier, ship
from looplab.openml_eval.settings import ShipSettings
from looplab.training.run_folder.checkpoint import load_checkpoint, save_checkpoint
from looplab.training.run_folder.run import RunFolder
from tests.openml_eval.data import halves


def test_what_is_shipped_is_found_and_answers_as_the_run_does(runs: Path, shelf: Path) -> None:
    X, labels = halves(30, 4)
    run = runs / "classifier"
    for _ in range(2):  # the second replaces the first
        assert ship(ShipSettings(str(run), "classifier")).startswith(f"{shelf / 'classifier'}: ")
        files = [path.name for path in sorted((shelf / "classifier").rglob("*.*"))]
        assert files == ["00000002.json", "00000002.safetensors", "config.yaml"]
    expected = LoopedClassifier(run).fit(X, labels).predict_proba(X)
    found = LoopedClassifier().fit(X, labels).predict_proba(X)
    np.testing.assert_array_equal(found, expected)


def test_nothing_but_weights_and_their_settings_is_kept(
    tmp_path: Path, runs: Path, shelf: Path
) -> None:
    """Not the optimiser's state, nor where the run was and on what."""
    run = tmp_path / "run"
    config = read_config(runs / "regressor")
    RunFolder(run).create(replace(config, folder="/home/somebody", device="cuda"))
    weights_of = load_checkpoint(runs / "regressor/checkpoints/00000002.safetensors")
    adam = {"adam.step.read_in.weight": torch.ones(3), "rate_factor": torch.tensor(1.0)}
    save_checkpoint(run / "checkpoints", 7, weights_of.tensors | adam)
    ship(ShipSettings(str(run), "regressor"))
    folder = shelf / "regressor"
    kept = load_checkpoint(folder / "checkpoints" / "00000007.safetensors").tensors
    assert kept.keys() == weights_of.tensors.keys()
    shipped = read_config(folder)
    assert (shipped.folder, shipped.device) == (Config.folder, Config.device)
    for part in ("task", "model", "loops", "curriculum", "training", "seed"):
        assert getattr(shipped, part) == getattr(config, part)
