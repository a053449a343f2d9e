"""Models that travel: the folder is a run like any other, whole or not there, and comes from the
hub by its name."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import yaml
from safetensors.torch import load_file

from looplab import evaluate, from_pretrained, load_run
from looplab import main as run
from looplab.conf.mistakes import ConfigError
from looplab.evaluation.export.export import export
from looplab.show.card import card
from looplab.training import Run
from looplab.training.assemble import trained_loops
from looplab.training.run_folder.run import run_folder
from looplab.training.validation import evaluation_prompts
from tests.conftest import tiny_config
from tests.training.tiny import interrupted

pytestmark = pytest.mark.usefixtures("undrawn")


@pytest.mark.parametrize("name", ["linear-standard", "sparse_linear-pairs"])
def test_a_model_predicts_elsewhere_what_it_predicts_here(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run.main(["action=export", f"run=shipped/{name}", "folder=it"]) == 0
    here = load_run(f"shipped/{name}")
    prompts = evaluation_prompts(here.task, 16, here.config.task.points, seed=1)
    loops = trained_loops(here.config)
    for found in (load_run("it"), from_pretrained(tmp_path / "it")):
        assert (found.step, found.config.model) == (here.step, here.config.model)
        assert torch.equal(found.model(prompts, loops), here.model(prompts, loops))
    assert load_file("it/model.safetensors").keys() == {
        f"model.{key}" for key in here.model.state_dict()
    }


def test_the_card_has_the_numbers_of_these_weights(tiny_run: Run, tmp_path: Path) -> None:
    result = evaluate(tiny_run)
    text = (export(tiny_run, tmp_path / "a", card) / "README.md").read_text()
    _, front, body = text.split("---\n", 2)
    assert yaml.safe_load(front)["library_name"] == "looplab"
    assert f"# sparse_linear: {tiny_run.model.describe()}" in body
    assert "task.dims=3 task.points=7 task.sparsity=2" in body
    mean, low, high = (result["by_loop"]["model"][part][3] for part in ("mean", "low", "high"))
    assert f"4 loops, 64 prompts: {mean:.4g} (90 %: {low:.4g} to {high:.4g})" in body
    path = tiny_run.path / "config.yaml"
    assert json.loads((tmp_path / "a" / "config.json").read_text())["settings"]["seed"] == 0
    assert path.parent.name not in text
    example = body.split("```python")[1].split("```")[0]
    names = dict[str, torch.Tensor]()
    exec(example.replace("PATH or USER/NAME", str(tmp_path / "a")), names)
    assert names["predictions"].shape == (1, 4, 7)
    with torch.no_grad():
        next(tiny_run.model.parameters()).add_(1)
    assert "Not evaluated" in (export(tiny_run, tmp_path / "b", card) / "README.md").read_text()


def test_what_cannot_be_exported_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    interrupted(config := tiny_config(tmp_path / "runs"), 19)
    words = ["action=export", f"run={run_folder(config).path}", f"folder={tmp_path / 'it'}"]
    assert run.main(words) == 2
    assert "is not finished: 20 of 40 steps" in capsys.readouterr().err

    def fail(*_: object) -> str:
        raise OSError("the disk is full")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("looplab.show.card.card", fail)
    assert run.main(["action=export", "run=shipped/linear", "folder=it"]) == 1
    assert capsys.readouterr().err == "run.py: the disk is full\n"
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]


def test_a_model_of_the_hub_is_fetched_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    export(load_run("shipped/linear"), Path("fetched"), card)

    def snapshot_download(name: str, revision: str = "main") -> str:
        if (name, revision) != ("ann/linear", "v1"):
            raise FileNotFoundError("no such model")
        return "fetched"

    hub = SimpleNamespace(snapshot_download=snapshot_download)
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub)
    assert from_pretrained("ann/linear", revision="v1").path == Path("fetched")
    with pytest.raises(ConfigError, match=r"^ann/lin is no folder, and .*: no such model$"):
        from_pretrained("ann/lin")
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ConfigError, match=r"needs huggingface_hub.*; pip install"):
        from_pretrained("ann/linear")
