"""A step of the reference is made by its own files, beside ours of the same names."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

from looplab.benchmarks.common import paired_ratio
from looplab.benchmarks.reference import FILES, Reference, load_reference
from looplab.benchmarks.settings import at_full_size, named_config
from tests.benchmarks.checkout import write_checkout

CPU = torch.device("cpu")


def test_it_steps_as_its_script_does(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    checkout = write_checkout(tmp_path)
    reference = Reference(checkout, at_full_size(named_config("small")), CPU)
    assert capsys.readouterr().out == ""
    weights = [parameter.detach().clone() for parameter in reference.model.parameters()]
    reference.step()
    seen = reference.modules["train"].seen
    assert seen == 2 * [((64, 17, 8), torch.float32, 6, 5)]  # the first before it is given out
    assert reference.curriculum.updates == 2
    after = reference.model.parameters()
    assert all((a != b).any() for a, b in zip(weights, after, strict=True))


@pytest.fixture
def models(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A module of somebody's own that has the name of one of the reference's."""
    module = ModuleType("models")
    monkeypatch.setitem(sys.modules, "models", module)
    return module


def test_modules_of_the_same_names_keep_them(tmp_path: Path, models: ModuleType) -> None:
    loaded = load_reference(write_checkout(tmp_path), *FILES)
    assert loaded["models"].__name__ == "reference_models"
    assert sys.modules["reference_models"] is loaded["models"]
    assert sys.modules["models"] is models
    assert "tasks" not in sys.modules
    assert "nano_gpt" not in sys.modules
    assert "schema" not in sys.modules


def test_a_ratio_is_that_of_pairs() -> None:
    ratio = paired_ratio([2.0, 40.0, 6.0], [1.0, 10.0, 1.0])
    assert ratio == (3.0, 4.0, 5.0)
    assert str(ratio) == "4 (3 to 5)"
