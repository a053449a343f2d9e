"""What cannot be imported: one line that names it, nothing run, nothing written."""

from __future__ import annotations

import io
import os
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch

from looplab.conf.mistakes import ConfigError
from looplab.training import RunError, import_checkpoint
from tests.models.reference_codes import leiay_weights
from tests.training.reference.reference_runs import (
    SAID,
    garg_run,
    leiay_run,
    openml_run,
    save_state,
)


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
        (pickle.dumps(Code()), "is no checkpoint that can be read"),
        (saved(torch.nn.Linear(2, 2)), r"holds torch\.nn\.modules\.linear\.Linear, not tensors"),
        (b"", "is no checkpoint that can be read, or a part of one"),
        (b"hello\nworld\n", "is no checkpoint that can be read"),
        (WHOLE[:-7], "is no checkpoint that can be read"),
        (saved([1, 2]), "holds no state of a model"),
        (saved({"epoch": 3, "lr": 0.1}), "holds no state of a model"),
        (saved({"fc.weight": torch.ones(2)}), "is laid out like neither .* begins with fc.weight"),
        (
            saved({"model_state_dict": leiay_weights(), "train_step": "many"}),
            "has a train_step that is no number of steps: 'many'",
        ),
        (saved({"model_state_dict": leiay_weights(), "train_step": -1}), "no number of steps: -1"),
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
    with pytest.raises(RunError, match=problem) as refused:
        import_checkpoint("model_5.pt", SAID)
    assert "\n" not in str(refused.value)
    assert recwarn.list == []
    assert [path.name for path in tmp_path.iterdir()] == ["model_5.pt"]


@pytest.mark.parametrize("name", ["missing.pt", "."])
def test_a_path_that_cannot_be_read_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(RunError, match="cannot be read: ") as refused:
        import_checkpoint(tmp_path / name, SAID, str(tmp_path / "runs"))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"task.dims": 5}, r"^task.dims cannot be 5: .*state.pt has 3$"),
        ({"model.n_embd": 32}, "^model.n_embd cannot be 32"),
        ({"model.n_layer": 2}, "^model.n_layer cannot be 2"),
        ({"training.steps": 3}, "^training.steps cannot be 3"),
        ({"model.n_head": 5}, "^model.n_embd must be a multiple of model.n_head=5, got 16"),
        ({"model.n_head": "two"}, "^model.n_head must be a whole number"),
        ({"task.points": 9}, "^task.points is 9, more than the model has positions"),
        ({"task.points": "all"}, "^task.points must be a whole number"),
        ({"task.sparsity": 9}, "^task.sparsity is 9, but there are 3 dims"),
        ({"task.sparsity": "two"}, "^task.sparsity must be a whole number"),
        ({"task.depth": 2}, "^task.depth is not a setting"),
        ({"task": "linaer"}, "^task is an unknown task 'linaer'; did you mean 'linear'"),
        ({"model": "standard", "loops.b": 3}, "^loops.b has no meaning with model=standard"),
        ({"model": "tied", "loops.b": 3, "loops.T": 2}, "^loops.T has no meaning with model=tied"),
        ({"model.residual_scaling": "linear"}, "^model.residual_scaling cannot be given to an"),
        ({"model": "FLT"}, "^model.family cannot be 'FLT'; expected one of looped"),
        ({"training.stps": 3}, "^training.stps is not a setting"),
    ],
)
def test_a_mistake_in_what_is_given_writes_nothing(
    given: dict[str, Any], problem: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=problem) as refused:
        import_checkpoint(leiay_run(tmp_path), given, str(tmp_path / "runs"))
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "runs").exists()


def test_garg_s_models_are_standard_ones(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"model cannot be 'looped': .* has 'standard'"):
        import_checkpoint(garg_run(tmp_path), {"model": "looped"}, str(tmp_path / "runs"))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"training__add_inputs_embeds": True}, "training.add_inputs_embeds is True, which has no"),
        ({"training__use_fixed_dataset": True}, "training.use_fixed_dataset is True"),
        ({"training__task_name": "quadratic_regression"}, "training.task_name is 'quadratic_reg"),
        ({"training__task_name": ["a"]}, r"training.task_name is \['a'\]"),
        ({"model__family": "lstm"}, "model.family is 'lstm'"),
        ({"model__pred_type": "ranking"}, "model.pred_type is 'ranking'"),
        ({"model__loop_func": "z=f(x)"}, "model.loop_func is 'z=f"),
        ({"training__curriculum__dims__end": 2}, "training.curriculum.dims.end is 2"),
        ({"training__task_name": "relu_2nn_regression"}, "training.sparsity is 2"),
        ({"model__n_embd": 32}, "config.yaml says model.n_embd=32, but .*state.pt has 16"),
        ({"model__n_dims": 4, "training__curriculum__dims__end": 4}, "says task.dims=4, but"),
        ({"model__n_layer": 4}, "says model.n_layer=4, but"),
        ({"model": None}, "is none of the reference codes' own"),
    ],
)
def test_what_their_config_says_and_we_have_not_is_refused_by_name(
    change: dict[str, Any], problem: str, tmp_path: Path
) -> None:
    path = leiay_run(tmp_path, **change)
    with pytest.raises(RunError, match=problem) as refused:
        import_checkpoint(path, {}, str(tmp_path / "runs"))
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"task": "linear"}, "^task cannot be 'linear': .*reads out two logits"),
        ({"task.held_out": "adult"}, "^task.held_out is 'adult', none of the tables: abalone, "),
        ({"task.tables": ["a", 7]}, "^task.tables must be a name, got 7"),
        ({"task.tables": ["delta_ailerons"]}, "^task.tables must hold one to train on"),
        ({"task.protocol": "published"}, "^task.protocol cannot be 'published'"),
        ({"task.flips": 0.1}, "^task.flips is not a setting"),
        ({"task.points": 46}, "^task.points is 46, more than the model has positions"),
    ],
)
def test_a_mistake_about_a_classifier_writes_nothing(
    given: dict[str, Any], problem: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=problem) as refused:
        import_checkpoint(openml_run(tmp_path), given, str(tmp_path / "runs"))
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "runs").exists()


def test_a_table_that_its_code_was_not_given_is_asked_for(tmp_path: Path) -> None:
    path = openml_run(tmp_path, training__test_idx=-1)
    with pytest.raises(ConfigError, match=r"does not say task\.held_out: say them"):
        import_checkpoint(path, {}, str(tmp_path / "runs"))
    run = import_checkpoint(path, {"task.held_out": "wind"}, str(tmp_path / "runs"))
    assert run.config.task.settings["held_out"] == "wind"


@pytest.mark.parametrize("number", [-2, 10, True, "wind"])
def test_a_table_that_is_none_of_the_ten_is_refused_by_its_number(
    number: Any, tmp_path: Path
) -> None:
    path = openml_run(tmp_path, training__test_idx=number)
    with pytest.raises(RunError, match=f"training.test_idx is {number!r}, which has no count"):
        import_checkpoint(path, {}, str(tmp_path / "runs"))


@pytest.mark.parametrize("task", ["tables", "halfspaces"])
def test_a_regression_s_model_is_no_classifier(task: str, tmp_path: Path) -> None:
    """But for Garg's, whose linear classification reads out one number too."""
    names = ("vary_features", "shared_factor", "threshold", "flips")
    given: dict[str, Any] = {f"task.{name}": 0 for name in names} | {"task.vary_features": False}
    given = {"task": task} | ({"task.held_out": "wind"} if task == "tables" else given)
    with pytest.raises(ConfigError, match=f"^task cannot be '{task}': .* reads out one number"):
        import_checkpoint(leiay_run(tmp_path), given, str(tmp_path / "runs"))
    if task == "tables":
        with pytest.raises(ConfigError, match=r"^task cannot be 'tables': .* reads out one number"):
            import_checkpoint(garg_run(tmp_path / "b"), given, str(tmp_path / "runs"))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"training__num_tasks": 100}, "training.num_tasks is 100"),
        ({"training__num_training_examples": 64}, "training.num_training_examples is 64"),
        ({"training__data": "uniform"}, "training.data is 'uniform'"),
        ({"training__task_kwargs": {"scale": 2}}, "training.task_kwargs.scale is 2"),
        ({"training__task_kwargs": {"bias": 1}}, "training.task_kwargs.bias is 1"),
        ({"model__family": "gpt2_loop"}, "model.family is 'gpt2_loop'"),
    ],
)
def test_garg_s_options_that_we_have_not_are_refused_by_name(
    change: dict[str, Any], problem: str, tmp_path: Path
) -> None:
    with pytest.raises(RunError, match=problem):
        import_checkpoint(garg_run(tmp_path, **change), {}, str(tmp_path / "runs"))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("model: [", "config.yaml cannot be read: "),
        ("- a\n- b\n", "is none of the reference codes' own"),
        ("model: 3\ntraining: {}\n", "is none of the reference codes' own"),
        ("task: {name: linear}\nmodel: {family: looped}\n", "is none of the reference codes' own"),
        ("!!python/object/apply:os.system ['touch ran']", "config.yaml cannot be read: "),
    ],
)
def test_a_config_yaml_of_something_else_is_refused(
    text: str, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = save_state(tmp_path / "state.pt", leiay_weights())
    (tmp_path / "config.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(RunError, match=problem) as refused:
        import_checkpoint(path, SAID)
    assert "\n" not in str(refused.value)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["config.yaml", "state.pt"]
