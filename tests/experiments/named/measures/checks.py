"""What holds of every measurement's panels, and runs as an experiment hands them over."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from looplab.evaluation.drawing import save_panels
from looplab.evaluation.panel import Panel
from looplab.experiments.claims import Measured
from looplab.training import Run
from tests.conftest import without_rendering


def check_panels(panels: Sequence[Panel]) -> list[str]:
    """Fail where a panel cannot be drawn or written; the names of the panels."""
    names = [panel.name for panel in panels]
    assert len(set(names)) == len(names)
    for panel in panels:
        assert re.fullmatch(r"[a-z0-9_-]+", panel.name.lower())
        assert panel.curves, panel.name
        labels = [curve.label for curve in panel.curves]
        assert len(set(labels)) == len(labels)
        for curve in panel.curves:
            for values in (curve.mean, curve.low, curve.high):
                assert len(values) == len(panel.x), panel.name
                assert all(value is None or math.isfinite(value) for value in values)
            assert any(value is not None for value in curve.mean), curve.label
            ends = zip(curve.low, curve.mean, curve.high, strict=True)
            for low, mean, high in ends:
                if low is not None and high is not None:
                    assert mean is not None
                    assert low <= mean <= high
        assert len(panel.x_names or panel.x) == len(panel.x)
        plain = json.loads(json.dumps(panel.plain()))
        assert Panel.read(plain).plain() == plain
    _compose(panels)
    return names


def _compose(panels: Sequence[Panel]) -> None:
    """Put the pictures together, without rendering them."""
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        without_rendering(patch)
        save_panels(Path(folder), panels)


def handed_over(run: Run, label: str) -> Measured:
    """A finished run as an experiment hands it to a measurement."""
    return Measured(label, run.config, run.step, {}, {}, str(run.path))
