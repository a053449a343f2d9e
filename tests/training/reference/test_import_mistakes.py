"""What cannot be imported: one line that names it, nothing run, nothing written."""

from __future__ import annotations

import io
import os
import pickle
from collections.abc import Callable
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


def test_code_in_a_config_yaml_does_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = save_state(tmp_path / "state.pt", leiay_weights())
    (tmp_path / "config.yaml").write_text("!!python/object/apply:os.system ['touch ran']")
    with pytest.raises(RunError, match=r"config\.yaml cannot be read"):
        import_checkpoint(path, SAID)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["config.yaml", "state.pt"]
