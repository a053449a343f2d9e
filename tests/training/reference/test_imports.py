"""What an import of a checkpoint asks for, and what it refuses, by name and with nothing run or
written; its run folder; and checkpoints as forks of the reference codes write them."""

from __future__ import annotations

import io
import json
import os
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
import yaml
from torch import Tensor

from looplab.conf.mistakes import ConfigError
from looplab.training import RunError, import_checkpoint, train
from looplab.training.run_folder.run import RunFolder, run_folder
from tests.models.reference_codes import garg_weights, leiay_weights
from tests.training.reference.reference_runs import (
    SAID,
    STEP,
    garg_run,
    leiay_config,
    leiay_run,
    openml_run,
    save_state,
)

ONE_LAYER = leiay_weights(n_positions=50)


@pytest.mark.parametrize(
    ("weights", "given", "missing"),
    [
        (
            ONE_LAYER,
            {"loops.b": 4},
            "task, task.points, model, model.n_head, model.injection, loops.T",
        ),
        (
            ONE_LAYER,
            {"task": "noisy_linear", "model": "tied"},
            "task.noise_std, task.renormalize, task.points, model.n_head, loops.b",
        ),
        (garg_weights(2, n_positions=50), {"task": "linear"}, "task.points, model.n_head"),
    ],
)
def test_only_what_is_known_to_be_needed_is_asked_for(
    weights: dict[str, Any], given: dict[str, Any], missing: str, tmp_path: Path
) -> None:
    path, runs = save_state(tmp_path / "a" / "state.pt", weights), tmp_path / "runs"
    with pytest.raises(ConfigError, match=f"state.pt does not say {re.escape(missing)}: say them"):
        import_checkpoint(path, given, str(runs))
    assert not runs.exists()


def files(folder: Path) -> dict[str, bytes]:
    """All files below a folder."""
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_where_every_setting_comes_from_is_kept(tmp_path: Path) -> None:
    path = leiay_run(tmp_path)
    run = import_checkpoint(path, {"task.points": 6}, str(tmp_path / "runs"))
    environment = json.loads((run.path / "environment.json").read_text())
    assert {"command", "torch", "git_commit"} < environment.keys()
    record = environment["imported"]
    assert record["checkpoint"] == str(path)
    assert re.fullmatch("[0-9a-f]{64}", record["sha256"])
    assert (record["code"], record["holds"]) == ("Leiay/looped_transformer", "a training state")
    assert record["from_checkpoint"]["model.n_embd"] == 16
    assert record["from_config"]["training.learning_rate"] == 3e-4
    assert record["from_command"] == {"task.points": 6}
    assert run.path.name == f"sparse_linear-looped-imported-{record['sha256'][:8]}"
    status = RunFolder(run.path).status()
    assert (status["state"], status["step"]) == ("finished", STEP)


def test_what_stands_in_the_way_is_never_written_over(tmp_path: Path) -> None:
    path, runs = leiay_run(tmp_path / "theirs"), tmp_path / "runs"
    run = import_checkpoint(path, {}, str(runs))
    before = files(runs)
    with pytest.raises(RunError, match=r"other settings \(loops\.b is 6, not 5\): move it away"):
        import_checkpoint(path, {"loops.b": 5}, str(runs))
    assert files(runs) == before
    (weights,) = (run.path / "checkpoints").glob("*.safetensors")
    weights.write_bytes(weights.read_bytes()[:-4])
    with pytest.raises(RunError, match="is damaged: remove it and import again"):
        import_checkpoint(path, {}, str(runs))
    (run.path / "environment.json").write_text("{}")
    before = files(runs)
    with pytest.raises(RunError, match="is in the way: it is no import of "):
        import_checkpoint(path, {}, str(runs))
    assert files(runs) == before


def test_training_begins_anew_and_never_goes_on_from_an_import(tmp_path: Path) -> None:
    said = SAID | {"training.steps": 2}
    path = tmp_path / "weights.pt"
    torch.save(leiay_weights(), path)
    run = import_checkpoint(path, said, str(tmp_path / "runs"))
    before = files(run.path)
    assert run_folder(run.config).path != run.path
    trained = train(run.config)
    assert trained.path != run.path
    assert not torch.equal(trained.model.read_in.weight, run.model.read_in.weight)
    assert files(run.path) == before


class Code:
    """What a pickle runs when it is opened."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("touch it_ran",)


def saved(content: Any) -> bytes:
    """What torch.save writes."""
    buffer = io.BytesIO()
    torch.save(content, buffer)
    return buffer.getvalue()


WHOLE = saved({"model": leiay_weights()})


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (saved({"model": leiay_weights(), "x": Code()}), r"holds (posix|nt)\.system, .* refused"),
        (pickle.dumps(Code(), protocol=2), r"holds (posix|nt)\.system, .* refused"),
        (WHOLE[:-7], "is no checkpoint that can be read"),
        (saved({"epoch": 3, "lr": 0.1}), "holds no state of a model"),
        (saved({"fc.weight": torch.ones(2)}), "is laid out like neither .* begins with fc.weight"),
        (
            saved({"model_state_dict": leiay_weights(), "train_step": "many"}),
            "has a train_step that is no number of steps: 'many'",
        ),
        (saved(leiay_weights(outputs=3)), "reads out 3 numbers, where Leiay/.* has 1 or 2"),
    ],
)
def test_a_file_that_is_no_checkpoint_is_refused_and_nothing_in_it_runs(
    content: bytes,
    problem: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    recwarn: pytest.WarningsRecorder,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model_5.pt").write_bytes(content)
    with pytest.raises(RunError, match=problem):
        import_checkpoint("model_5.pt", SAID)
    assert recwarn.list == []
    assert [path.name for path in tmp_path.iterdir()] == ["model_5.pt"]


Make = Callable[..., Path]


@pytest.mark.parametrize(
    ("make", "change", "given", "problem"),
    [
        (leiay_run, {}, {"task.dims": 5}, r"^task.dims cannot be 5: .*state.pt has 3$"),
        (leiay_run, {}, {"model.n_head": 5}, "^model.n_embd must be a multiple of model.n_head=5"),
        (leiay_run, {}, {"task.points": 9}, "^task.points is 9, more than the model has positions"),
        (leiay_run, {}, {"task": "linaer"}, "^task is an unknown task .* did you mean 'linear'"),
        (leiay_run, {}, {"model": "standard", "loops.b": 3}, "^loops.b has no meaning with"),
        (leiay_run, {}, {"model.residual_scaling": "linear"}, "^model.residual_scaling cannot be"),
        (leiay_run, {}, {"task": "tables", "task.held_out": "wind"}, "^task cannot be 'tables'"),
        (garg_run, {}, {"model": "looped"}, "model cannot be 'looped': .* has 'standard'"),
        (openml_run, {}, {"task": "linear"}, "^task cannot be 'linear': .*reads out two logits"),
        (openml_run, {}, {"task.held_out": "adult"}, "^task.held_out is 'adult', none of the"),
        (openml_run, {}, {"task.tables": ["delta_ailerons"]}, "^task.tables must hold one to"),
        (
            leiay_run,
            {"training__add_inputs_embeds": True},
            {},
            "training.add_inputs_embeds is True",
        ),
        (leiay_run, {"training__task_name": "quadratic_regression"}, {}, "task_name is 'quadrat"),
        (
            leiay_run,
            {"training__curriculum__dims__end": 2},
            {},
            "training.curriculum.dims.end is 2",
        ),
        (leiay_run, {"model__n_embd": 32}, {}, "says model.n_embd=32, but .*state.pt has 16"),
        (leiay_run, {"model": None}, {}, "is none of the reference codes' own"),
        (openml_run, {"training__test_idx": 10}, {}, "training.test_idx is 10"),
        (garg_run, {"training__num_tasks": 100}, {}, "training.num_tasks is 100"),
        (garg_run, {"training__task_kwargs": {"scale": 2}}, {}, "training.task_kwargs.scale is 2"),
    ],
)
def test_a_mistake_writes_nothing(
    make: Make, change: dict[str, Any], given: dict[str, Any], problem: str, tmp_path: Path
) -> None:
    """What is given is refused by its key, what their config says and we have not by its name."""
    with pytest.raises(ConfigError if given else RunError, match=problem):
        import_checkpoint(make(tmp_path, **change), given, str(tmp_path / "runs"))
    assert not (tmp_path / "runs").exists()


def test_a_table_that_its_code_was_not_given_is_asked_for(tmp_path: Path) -> None:
    path = openml_run(tmp_path, training__test_idx=-1)
    with pytest.raises(ConfigError, match=r"does not say task\.held_out: say them"):
        import_checkpoint(path, {}, str(tmp_path / "runs"))
    run = import_checkpoint(path, {"task.held_out": "wind"}, str(tmp_path / "runs"))
    assert run.config.task.settings["held_out"] == "wind"


Weights = dict[str, Tensor]
CONTAINERS: dict[str, Callable[[Weights], dict[str, Any]]] = {
    "Lightning": lambda w: {"state_dict": prefixed("model.", w), "global_step": 5, "epoch": 1},
    "DataParallel": lambda w: {"model": prefixed("module.", w), "step": 5},
    "compiled, DDP": lambda w: {"net": prefixed("module._orig_mod.", w), "step": 5},
    "FSDP": lambda w: {"module": within("_fsdp_wrapped_module.", w), "step": 5},
    "half": lambda w: {"model": {name: part.half() for name, part in w.items()}, "step": 5},
}


def prefixed(prefix: str, weights: Weights) -> Weights:
    return {prefix + name: part for name, part in weights.items()}


def within(prefix: str, weights: Weights) -> Weights:
    """With the backbone alone wrapped."""
    return {name.replace("_backbone.", f"_backbone.{prefix}"): w for name, w in weights.items()}


def write(folder: Path, config: str = "") -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "config.yaml").write_text(config or yaml.dump(leiay_config()), encoding="utf-8")
    return folder / "state.pt"


def assert_imported(path: Path, tmp_path: Path, **given: Any) -> Any:
    """Its weights are those of the plain file."""
    torch.save({"model_state_dict": leiay_weights(1), "train_step": 5}, write(tmp_path / "plain"))
    plain = import_checkpoint(tmp_path / "plain" / "state.pt", {}, str(tmp_path / "plain_runs"))
    run = import_checkpoint(path, given, str(tmp_path / "runs"))
    assert run.step == 5
    for name, part in plain.model.state_dict().items():
        torch.testing.assert_close(run.model.state_dict()[name], part, rtol=1e-3, atol=1e-4)
    return run.config


@pytest.mark.parametrize("name", CONTAINERS)
def test_a_container_and_a_wrapper(name: str, tmp_path: Path) -> None:
    path = write(tmp_path / "theirs")
    torch.save(CONTAINERS[name](leiay_weights(1)), path)
    assert_imported(path, tmp_path)


def test_safetensors(tmp_path: Path) -> None:
    path = write(tmp_path / "theirs").with_name("model_5.safetensors")
    safetensors.torch.save_file(leiay_weights(1), path)
    assert_imported(path, tmp_path)
