"""What is said of a measurement: in tables, in comparisons and on pictures."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from looplab.conf.schema import EvaluationConfig
from looplab.evaluation import compare, evaluate
from looplab.evaluation.bootstrap import bootstrap, numbers
from looplab.evaluation.evaluate_run import measured
from looplab.evaluation.report import comparison_table, report
from looplab.evaluation.results import near_least
from looplab.training import Run
from tests.evaluation.conftest import restless

pytestmark = pytest.mark.usefixtures("undrawn")

SETTINGS = EvaluationConfig(prompts=64, resamples=50, batch_size=24, loops=6)


def test_a_standard_model_in_a_comparison_has_its_layers_and_no_more(
    two_runs: tuple[Run, Run], tmp_path: Path
) -> None:
    result = compare(two_runs, replace(SETTINGS, max_loops=20), tmp_path)
    looped, standard = result["runs"].values()
    assert (looped["loops"], len(looped["by_loop"]["loop"])) == (6, 20)
    assert (standard["loops"], len(standard["by_loop"]["loop"])) == (2, 2)


def test_a_comparisons_numbers_are_those_of_its_arrays(
    two_runs: tuple[Run, Run], tmp_path: Path
) -> None:
    settings = replace(SETTINGS, resamples=40, seed=3)
    result = compare(two_runs, settings, tmp_path)
    arrays = [measured(run, settings)[1] for run in two_runs]
    for run, saved in zip(two_runs, arrays, strict=True):
        entry = result["runs"][run.path.name]
        by_loop = entry["by_loop"]
        for found, values in (
            (entry["by_examples"]["model"], saved["model"]),
            (by_loop["model"], saved["by_loop"]),
            (entry["minus_first"]["by_examples"], saved["model"] - arrays[0]["model"]),
        ):
            assert found == bootstrap(values, 40, 3).to_json()
        assert by_loop["near_least"] == near_least(saved["by_loop"], settings)
        assert (entry["seed"], entry["step"]) == (1, 40)


def test_other_settings_weights_and_solvers_are_another_comparison(
    two_runs: tuple[Run, Run], tmp_path: Path
) -> None:
    places = [
        compare(two_runs, settings, tmp_path)["path"]
        for settings in (
            SETTINGS,
            replace(SETTINGS, seed=3),
            replace(SETTINGS, baselines=("ridge",)),
        )
    ]
    restless(two_runs[1])
    places.append(compare(two_runs, SETTINGS, tmp_path)["path"])
    assert len(set(places)) == 4


def test_what_is_published_stands_under_ours(
    tiny_run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = [0.5 + 0.01 * k for k in range(7)]
    edges = {"low": [v - 0.1 for v in values], "high": [v + 0.2 for v in values]}
    shared = {"mean": values, **edges, "rounding": "none"}
    curves = [
        {"name": "model", "label": "theirs", "model": {"family": "looped"}, "loops": 6, **shared},
        {"name": "least_squares", "label": "least squares", **shared},
        {"name": "lasso", "label": "Lasso, α = 99", **shared},
        {"name": "ridge", "label": "ridge, λ = 99", **shared},
    ]
    task = {"name": "sparse_linear", "dims": 3, "points": 7, "settings": {"sparsity": 2}}
    protocol = {"training_steps": 5000, "prompts": 1280}
    file = {"results": [{"task": task, "protocol": protocol, "source": "paper", "curves": curves}]}
    path = tmp_path / "published.json"
    path.write_text(json.dumps(file))
    monkeypatch.setattr("looplab.evaluation.published._PATH", path)
    lines = report(evaluate(tiny_run, SETTINGS)).splitlines()
    at = lines.index(next(line for line in lines if "published: theirs" in line))
    assert lines[at - 3].startswith("looped, 6 loops")
    assert lines[at].split()[1:] == ["theirs", "0.5", "0.51", "0.52", "0.53", "0.54", "0.56"]
    assert lines[at + 1].split()[:2] == ["low", "0.4"]
    assert lines[at + 2].split()[:2] == ["high", "0.7"]
    assert any("published: least squares" in line for line in lines)
    assert not any("= 99" in line for line in lines)
    assert not any("is published at" in line for line in lines)
    lines = report(evaluate(tiny_run, replace(SETTINGS, loops=3))).splitlines()
    assert "this model is published at 6 loops: evaluation.loops=6" in lines
    assert not any("published: theirs" in line for line in lines)


def test_the_report_of_loops_and_shifts(tiny_run: Run) -> None:
    result = evaluate(
        restless(tiny_run), replace(SETTINGS, shifts=("orthogonal_query", "scaled_w_2"))
    )
    text = report(result)
    moves = result["by_loop"]["state_change"]["mean"][3]
    assert f"over loop 4 its state moves by {moves:.3g} of its norm" in text
    rows = [line for line in text.splitlines() if line.startswith(("orthogonal query:", "w · 2:"))]
    for row in rows:
        name = "orthogonal_query" if row.startswith("orth") else "scaled_w_2"
        assert row.endswith(f" {result['shifts'][name]['zero']:.3g}")
        assert len(row) == max(map(len, rows))


def test_halting_stands_beside_the_error_at_b(two_runs: tuple[Run, Run], tmp_path: Path) -> None:
    run = restless(two_runs[0])
    settings = replace(SETTINGS, loops="auto", tolerance=0.6)
    result = evaluate(run, settings)
    by_examples = result["by_examples"]
    halted, used, at_b = (
        numbers(by_examples[name]["mean"]) for name in ("model", "loops_used", "model_at_b")
    )
    assert 1 < used[-1] < 4
    (line,) = [line for line in report(result).splitlines() if line.startswith("early exit")]
    rule, said = line.split(": ")
    assert rule == "early exit once the state changes by at most 0.6 of its norm, or at loop 4"
    assert said == (
        f"mean over k {halted.mean():.3g} after {used.mean():.3g} loops on average, "
        f"{at_b.mean():.3g} after all b = 4"
    )
    assert "early exit once" not in report(evaluate(run, SETTINGS))
    assert "looped, early exit, seed 1" in comparison_table(compare([run], settings, tmp_path))


def test_levels_titles_and_marks(
    two_runs: tuple[Run, Run], tmp_path: Path, undrawn: dict[str, Figure]
) -> None:
    run = two_runs[0]
    result = evaluate(run, replace(SETTINGS, shifts=("noise", "scaled_w_3")))
    levels = [
        line
        for line in undrawn["error_by_examples"].axes[0].lines
        if line.get_linestyle() == ":" and len(np.asarray(line.get_xdata())) == 2
    ]
    assert [list(np.asarray(line.get_ydata())) for line in levels] == [[1, 1]]
    for axes, shift in zip(undrawn["shifts"].axes, result["shifts"].values(), strict=True):
        assert axes.get_title() == shift["label"]
        assert [shift["zero"]] * 2 in [list(np.asarray(line.get_ydata())) for line in axes.lines]
        low, high = axes.get_ylim()
        curves = (shift["model"], shift["model_at_b"])
        means, highs = ([numbers(curve[part]) for curve in curves] for part in ("mean", "high"))
        assert low < np.min(means)
        assert np.max(means) < high
        assert high <= 3 * max(shift["zero"], np.max(highs))
    compared = compare(two_runs, replace(SETTINGS, loops=None), tmp_path)
    marks = [
        list(np.asarray(line.get_xdata()))
        for line in undrawn["error_by_loop"].axes[0].lines
        if line.get_linestyle() == "--" and line.get_color() == "black"
    ]
    assert marks == [[2, 2], [4, 4]]
    texts = [text.get_text() for text in undrawn["difference_by_examples"].axes[0].texts]
    assert texts == ["looped, 4 loops, seed 1"]
    assert compared["path"]
