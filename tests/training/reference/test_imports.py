"""Checkpoints of the reference codes and their forks: what is read, what is asked for, what wins,
and what is refused, by name and with nothing run or written; and the run folder of an import."""

import io
import json
import os
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch
from torch import Tensor

from looplab.conf.compose import commands
from looplab.conf.mistakes import ConfigError
from looplab.conf.schema import CurriculumConfig, GrowthConfig, LoopsConfig
from looplab.evaluation.load import load_run
from looplab.models.reference import read_reference
from looplab.tasks import Prompts
from looplab.tasks.table_rows import TEN
from looplab.training import RunError, import_checkpoint, train
from looplab.training.run_folder.run import RunFolder, run_folder
from tests.models.reference_codes import (
    SAID,
    STEP,
    garg_run,
    garg_weights,
    leiay_run,
    leiay_weights,
    openml_run,
    openml_weights,
    predict,
    save_state,
)
from tests.models.small import draw_prompts

ONE_LAYER = leiay_weights(n_positions=50)


@pytest.mark.parametrize(
    ("weights", "given", "missing"),
    [
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


def test_where_every_setting_comes_from_is_kept_and_never_written_over(tmp_path: Path) -> None:
    path, runs = leiay_run(tmp_path / "theirs"), tmp_path / "runs"
    run = import_checkpoint(path, {"task.points": 6}, str(runs))
    environment = json.loads((run.path / "environment.json").read_text())
    assert {"command", "torch", "git_commit"} < environment.keys()
    record = environment["imported"]
    assert record["checkpoint"] == str(path)
    assert re.fullmatch("[0-9a-f]{64}", record["sha256"])
    assert record["code"] == "Leiay/looped_transformer"
    assert record["from_checkpoint"]["model.n_embd"] == 16
    assert record["from_config"]["training.learning_rate"] == 3e-4
    assert record["from_command"] == {"task.points": 6}
    assert run.path.name == f"sparse_linear-looped-imported-{record['sha256'][:8]}"
    status = RunFolder(run.path).status()
    assert (status["state"], status["step"]) == ("finished", STEP)
    before = files(runs)
    with pytest.raises(RunError, match=r"other settings \(loops\.b is 6, not 5\): move it away"):
        import_checkpoint(path, {"task.points": 6, "loops.b": 5}, str(runs))
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


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (saved({"model": leiay_weights(), "x": Code()}), r"holds (posix|nt)\.system, .* refused"),
        (pickle.dumps(Code(), protocol=2), r"holds (posix|nt)\.system, .* refused"),
        (saved({"model": leiay_weights()})[:-7], "is no checkpoint that can be read"),
        (saved({"epoch": 3, "lr": 0.1}), "holds no state of a model"),
        (saved({"model": leiay_weights(), "step": 5.5}), "no number of steps: 5.5"),
        (saved({"model": leiay_weights(), "step": "last"}), "no number of steps: 'last'"),
        (saved({"fc.weight": torch.ones(2)}), "is laid out like neither .* begins with fc.weight"),
        (saved(leiay_weights(outputs=3)), "reads out 3 numbers, where Leiay/.* has 1 or 2"),
        (saved(leiay_weights() | {"_backbone.lanes": torch.ones(2)}), "does not fit .*lanes"),
    ],
)
def test_a_file_that_is_no_checkpoint_is_refused_and_nothing_in_it_runs(
    content: bytes, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model_5.pt").write_bytes(content)
    with pytest.raises(RunError, match=problem):
        import_checkpoint("model_5.pt", SAID)
    assert [path.name for path in tmp_path.iterdir()] == ["model_5.pt"]


@pytest.mark.parametrize(
    ("make", "change", "given", "problem"),
    [
        (leiay_run, {}, {"task.dims": 5}, r"^task.dims cannot be 5: .*state.pt has 3$"),
        (leiay_run, {}, {"task": "linaer"}, "^task cannot be .linaer.; did you mean .linear."),
        (leiay_run, {}, {"model": "standard", "loops.b": 3}, "^loops.b has no meaning with"),
        (leiay_run, {}, {"task": "tables", "task.held_out": "wind"}, "^task cannot be 'tables'"),
        (leiay_run, {}, {"model.residual_scaling": "linear"}, "^model.residual_scaling cannot be"),
        (garg_run, {}, {"model": "looped"}, "model cannot be 'looped': .* has 'standard'"),
        (openml_run, {}, {"task": "linear"}, "^task cannot be 'linear': .*reads out two logits"),
        (leiay_run, {"training__add_inputs_embeds": True}, {}, "add_inputs_embeds is True"),
        (leiay_run, {"training__task_name": "quadratic_regression"}, {}, "task_name is 'quadrat"),
        (leiay_run, {"training__curriculum__dims__end": 2}, {}, "curriculum.dims.end is 2"),
        (leiay_run, {"model__n_embd": 32}, {}, "says model.n_embd=32, but .*state.pt has 16"),
        (leiay_run, {"model": None}, {}, "is none of the reference codes' own"),
        (openml_run, {"training__test_idx": 10}, {}, "training.test_idx is 10"),
        (garg_run, {"training__task_kwargs": {"scale": 2}}, {}, "training.task_kwargs.scale is 2"),
    ],
)
def test_a_mistake_writes_nothing(
    make: Callable[..., Path],
    change: dict[str, Any],
    given: dict[str, Any],
    problem: str,
    tmp_path: Path,
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
    "Lightning": lambda w: {
        "state_dict": {"accuracy.total": torch.tensor(3), "loss.weight": torch.ones(2)}
        | prefixed("model.", w),
        "hyper_parameters": {"loss": np.float32(0.5), "random": np.random.get_state()},
        "global_step": "5",
    },
    "compiled, DDP": lambda w: {"net": prefixed("module._orig_mod.", w), "step": 5},
    "half": lambda w: {"model": {name: part.half() for name, part in w.items()}, "step": 5},
    "AveragedModel": lambda w: {
        "model_state_dict": {"n_averaged": torch.tensor(9), **prefixed("module._orig_mod.", w)},
        "step": torch.tensor(5),
    },
    "ema-pytorch": lambda w: {
        "model": {"initted": torch.tensor([True]), "step": torch.tensor([9])}
        | prefixed("ema_model.", w)
        | {name: part + 1 for name, part in prefixed("online_model.", w).items()},
        "step": np.int64(5),
    },
    "an average alone": lambda w: {"ema": {"shadow": w}, "step": None, "global_steps": 5.0},
    "an average beside": lambda w: {
        "ema": {name: part + 1 for name, part in w.items()},
        "checkpoint": {"network": w | {"step": 5}},
        "step": 5,
    },
    "checkpointed": lambda w: {
        "model": {name.replace(".h.0", ".h.0._checkpoint_wrapped_module"): w[name] for name in w},
        "iter_num": 5,
    },
}


def prefixed(prefix: str, weights: Weights) -> Weights:
    return {prefix + name: part for name, part in weights.items()}


@pytest.mark.parametrize("name", [*CONTAINERS, "safetensors"])
def test_a_container_and_a_wrapper(name: str, tmp_path: Path) -> None:
    path, weights = leiay_run(tmp_path / "theirs"), leiay_weights(1)
    if name == "safetensors":
        path = path.with_name("model_5.SafeTensors")
        safetensors.torch.save_file(weights, path)
    else:
        torch.save(CONTAINERS[name](weights), path)
    run = import_checkpoint(path, {}, str(tmp_path / "runs"))
    assert run.step == 5
    for ours, part in read_reference(weights).weights.items():
        torch.testing.assert_close(run.model.state_dict()[ours], part, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("files", "name", "problem"),
    [
        (["model-00001-of-00002.safetensors"], "", "in several: load them all"),
        (["a-00002-of-00003.bin"], "a-00002-of-00003.bin", "in several: load them all"),
        (["model.safetensors.index.json"], "model.safetensors.index.json", "in several"),
        (["fsdp/.metadata"], "", "python -m torch.distributed.checkpoint.* dcp_to_torch"),
        (["__0_0.distcp"], "__0_0.distcp", "dcp_to_torch FOLDER state.pt"),
        (["zero_to_fp32.py", "x/a_optim_states.pt"], "", "that its zero_to_fp32.py makes"),
        (["a_optim_states.pt"], "a_optim_states.pt", "this is the state of an optimiser"),
        (["state.pt"], "", "is no file: .*; name one in it"),
    ],
)
def test_of_several_files_the_wanted_one_is_named(
    files: list[str], name: str, problem: str, tmp_path: Path
) -> None:
    folder = tmp_path / "theirs"
    for file in files:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_bytes(b"")
    path = folder / name
    with pytest.raises(RunError, match=problem):
        import_checkpoint(path, SAID, str(tmp_path / "runs"))
    with pytest.raises(ConfigError, match=f"^checkpoint .*{problem}"):
        commands(["action=import", f"checkpoint={path}"])


def test_a_run_of_leiay_s_needs_no_word_and_predicts_as_it_did(tmp_path: Path) -> None:
    path = leiay_run(tmp_path / "theirs")
    run = load_run(import_checkpoint(path, {}, str(tmp_path / "runs")).path)
    config = run.config
    assert (config.task.name, config.task.dims, config.task.points) == ("sparse_linear", 3, 8)
    assert config.task.settings == {"sparsity": 2}
    model = config.model
    assert (model.family, model.injection, model.n_layer) == ("looped", "multiply", 1)
    assert (model.n_embd, model.n_head, model.n_positions) == (16, 2, 8)
    assert config.loops == LoopsConfig(b=6, T=5)
    assert config.curriculum == CurriculumConfig(
        dims=GrowthConfig(2, 1, (60,)),
        points=GrowthConfig(3, 2, (50,)),
        loops=GrowthConfig(4, 2, (70,)),
    )
    training = config.training
    assert (training.steps, training.batch_size, training.learning_rate) == (STEP, 16, 3e-4)
    assert config.seed == 42
    assert run.step == STEP
    prompts = draw_prompts(points=8)
    theirs = predict(leiay_weights(1), prompts, 6, "multiply")
    torch.testing.assert_close(run.model(prompts, 6)[0], theirs, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("code", "task", "options", "name", "settings"),
    [
        ("leiay", "noisy_linear_regression", {}, "noisy_linear", {"noise_std": 0.1}),
        ("leiay", "decision_tree", {}, "decision_tree", {"depth": 4}),
        ("garg", "relu_2nn_regression", {"hidden_layer_size": 4}, "relu_network", {"hidden": 4}),
        ("garg", "sparse_linear_regression", {"scale": 1}, "sparse_linear", {"sparsity": 3}),
    ],
)
def test_their_tasks_have_their_options_or_their_code_s_defaults(
    code: str, task: str, options: Any, name: str, settings: Any, tmp_path: Path
) -> None:
    if code == "leiay":
        path = leiay_run(tmp_path, training__task_name=task)
    else:
        path = garg_run(tmp_path, training__task=task, training__task_kwargs=options)
    found = import_checkpoint(path, {}, str(tmp_path / "runs")).config.task
    assert (found.name, found.settings) == (name, found.settings | settings)


def test_the_step_is_asked_for_where_neither_file_nor_name_says_it(tmp_path: Path) -> None:
    path = tmp_path / "final.pt"
    torch.save({"model": leiay_weights()}, path)
    with pytest.raises(ConfigError, match=r"does not say training\.steps: "):
        import_checkpoint(path, SAID, str(tmp_path / "runs"))
    run = import_checkpoint(path, SAID | {"training.steps": 12}, str(tmp_path / "runs"))
    assert (run.step, load_run(run.path).step, run.config.training.steps) == (12, 12, 12)
    numbered = path.rename(tmp_path / "model_345.pt")
    with pytest.raises(ConfigError, match=r"training\.steps cannot be 12: .* has 345"):
        import_checkpoint(numbered, SAID | {"training.steps": 12}, str(tmp_path / "other"))
    assert import_checkpoint(numbered, SAID, str(tmp_path / "other")).step == 345
    first = save_state(tmp_path / "state.pt", leiay_weights(), step=0)
    run = load_run(import_checkpoint(first, SAID, str(tmp_path / "first")).path)
    assert (run.step, run.config.training.steps) == (0, 1)


def test_the_command_line_wins_over_their_config(tmp_path: Path) -> None:
    path = leiay_run(tmp_path)
    given = {"task": "decision_tree", "task.depth": 2, "task.points": 2, "loops.b": 3}
    config = import_checkpoint(path, given, str(tmp_path / "runs")).config
    assert config.task.settings == {"depth": 2}  # and nothing of the task that it was
    assert (config.task.points, config.loops) == (2, LoopsConfig(3, 5))
    # Curricula that would begin beyond their new ends.
    assert (config.curriculum.points.start, config.curriculum.loops.start) == (2, 3)
    tied = import_checkpoint(path, {"model": "tied", "loops.b": 9}, str(tmp_path / "tied")).config
    assert (tied.model.injection, tied.loops.b) == ("none", 9)


def labelled(zero: float = 0.0) -> Prompts:
    """Prompts of 41 pairs whose ys are `zero` and 1."""
    generator = torch.Generator().manual_seed(5)
    xs = torch.randn(4, 41, 3, generator=generator)
    return Prompts(xs, torch.where(torch.rand(4, 41, generator=generator) < 0.5, zero, 1.0))


@pytest.mark.parametrize("family", ["gpt2_loop", "gpt2"])
def test_a_run_of_tables_needs_no_word_and_no_table(family: str, tmp_path: Path) -> None:
    path = openml_run(tmp_path / "theirs", family)
    run = load_run(import_checkpoint(path, {}, str(tmp_path / "runs")).path)
    task, config = run.config.task, run.config
    assert (task.name, task.dims, task.points, run.step) == ("tables", 3, 41, STEP)
    assert task.settings["held_out"] == "delta_ailerons"
    assert task.settings["protocol"] == "reference"
    assert tuple(task.settings["tables"]) == TEN
    assert run.task.labels == (0.0, 1.0)
    # Its code looks at no curriculum but that of the loops.
    loops = GrowthConfig(4, 2, (70,)) if family == "gpt2_loop" else CurriculumConfig().loops
    assert config.curriculum == CurriculumConfig(loops=loops)
    looped = family == "gpt2_loop"
    assert config.loops == (LoopsConfig(b=6, T=5) if looped else LoopsConfig())
    prompts, steps = labelled(), 6 if looped else 3
    ours = run.model(prompts, steps, 1, grad_loops=steps)[0]
    injection = "multiply" if looped else "none"
    theirs = predict(openml_weights(family), prompts, 6 if looped else 1, injection)  # type: ignore[arg-type]
    assert ours.shape == (4, 41, 2)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-5)


def test_garg_s_linear_classification_is_one_of_halfspaces(tmp_path: Path) -> None:
    """Its one number is the log odds of y = 1, which two logits 0 and z are too."""
    path = garg_run(
        tmp_path / "a", training__task="linear_classification", training__task_kwargs={}
    )
    run = load_run(import_checkpoint(path, {}, str(tmp_path / "runs")).path)
    assert run.config.task.name == "halfspaces"
    plain = {"vary_features": False, "shared_factor": 0.0, "threshold": 0.0, "flips": 0.0}
    assert run.config.task.settings == plain
    whole = labelled(-1.0)
    prompts = Prompts(whole.xs[:, :8], whole.ys[:, :8])
    ours = run.model(prompts, 3, 1, grad_loops=3)[0].softmax(-1)[..., 1]
    theirs = predict(garg_weights(3), prompts, 1).sigmoid()  # type: ignore[arg-type]
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-5)
