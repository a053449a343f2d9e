"""`figure=trained`: norms and increments of runs, as far as they were trained to loop."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from looplab.conf.schema import LoopsConfig
from looplab.evaluation.errors import evaluation_prompts
from looplab.evaluation.panel import Panel
from looplab.evaluation.tables import document
from looplab.experiments.stability.__main__ import main
from looplab.experiments.stability.trained import report
from looplab.training import Run, train
from tests.conftest import tiny_config


@pytest.fixture
def unnormed_run(tmp_path: Path) -> Run:
    """A finished run whose stream no norm touches."""
    config = tiny_config(tmp_path)
    model = replace(config.model, injection="none", norm="at_readout", residual_scaling="linear")
    return train(replace(config, model=model, loops=LoopsConfig(3, 1, "all")))


def test_norms_and_cosines_are_the_unrolled_states(
    linear_run: Run, unnormed_run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = [linear_run, unnormed_run]
    words = ["figure=trained", f"runs=[{','.join(str(run.path) for run in runs)}]"]
    assert main([*words, f"folder={tmp_path / 'out'}"]) == 0
    out = capsys.readouterr().out
    assert all(str(run.path) in out for run in runs)
    (kept,) = (tmp_path / "out").glob("trained-*.json")
    result = json.loads(kept.read_text())
    panels = {each["name"]: Panel.read(each) for each in result["panels"]}
    for at, (run, found) in enumerate(zip(runs, result["runs"], strict=True), start=1):
        b = run.config.loops.b
        prompts = evaluation_prompts(run.task, 64, run.config.task.points, 0)
        states = [s for s, _ in run.model.unroll(prompts, b)]
        raw = [state.raw[:, :-1].norm(dim=-1).mean().item() for state in states]
        np.testing.assert_allclose(found["norm"]["mean"], raw, rtol=1e-4)
        # From loop 1 on the streams say the increments; before it stands what the loop began with.
        moves = torch.stack([s.stream[:, :-1] for s, _ in run.model.unroll(prompts, b)][1:])
        units = torch.nn.functional.normalize(moves.diff(dim=0), dim=-1)
        cosine = torch.einsum("iptd,jptd->ijpt", units, units).mean((2, 3)).numpy()
        np.testing.assert_allclose(np.array(found["cosine"])[1:, 1:], cosine, atol=1e-4)
        matrix = panels[f"trained-cosines-{at}"].matrix
        np.testing.assert_array_equal(np.array(matrix), found["cosine"])
        norm = panels["trained-norms"].curves[at - 1]
        assert (norm.label, norm.mean[: b + 1]) == (f"{at}: {found['what']}", found["norm"]["mean"])
    names = ("trained-norms", "trained-cosines-1", "trained-cosines-by-distance")
    assert all((kept.with_suffix("") / f"{name}.png").exists() for name in names)
    assert result["runs"][1]["what"] == "looped, b = 3, linear"


def test_loops_that_add_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], recwarn: pytest.WarningsRecorder
) -> None:
    """As of fully looped blocks before the first step."""
    config = tiny_config(tmp_path)
    model = replace(config.model, injection="none", block="flt", connectivity="FLT")
    still = replace(config, model=model, training=replace(config.training, steps=0))
    run, out = train(still), tmp_path / "out"
    recwarn.clear()
    assert main(["figure=trained", f"runs=[{run.path}]", f"folder={out}"]) == 0
    assert not [each for each in recwarn if issubclass(each.category, RuntimeWarning)]
    (row,) = [line for line in capsys.readouterr().out.splitlines() if str(run.path) in line]
    assert row.split()[-4:] == ["no", "two", "move", "–"]  # no loss is logged
    (kept,) = out.glob("trained-*.json")
    text = kept.read_text()
    assert "NaN" not in text
    (found,) = json.loads(text)["runs"]
    assert found["apart"] is None
    # The first loop norms what it reads; the others find it normed.
    assert found["cosine"][0][0] == pytest.approx(1)
    assert [value for row in found["cosine"] for value in row][1:] == [None] * 15
    still_result = json.loads(text) | {"runs": [found | {"cosine": [[None] * 4] * 4}]}
    assert document(report(still_result)).count("none moves")


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ([], "runs must name run folders"),
        (["runs=[nowhere]"], "nowhere is no run folder"),
        (["runs=[nowhere]", "loops=[2,3]"], "loops does not bear on figure=trained"),
    ],
)
def test_mistakes(
    words: list[str], problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["figure=trained", *words, f"folder={tmp_path / 'out'}"]) == 2
    assert problem in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
