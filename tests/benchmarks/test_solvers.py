"""The solvers' benchmark: its gaps, its comparison with stored curves, and what it writes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import Lasso

from reloop.benchmarks import solver_curves
from reloop.benchmarks.solver_curves import NOTE, TASKS, Curve, agreement, compare, read_curves
from reloop.benchmarks.solvers import ALPHAS, main, relative_gaps
from reloop.benchmarks.timing import Times
from tests.conftest import HOME

SMALL = ["prompts=12", "points=7", "dims=4", "pairs=2", "fitted=2"]
SHARED = HOME / ".." / "shared" / "baseline_curves.json"


def curves_file(path: Path, prompts: int, points: int) -> Path:
    """A file of stored curves, made by our solvers on prompts of a seed that no test compares."""
    tasks: dict[str, Any] = {}
    for task, (theirs, solvers) in TASKS.items():
        entries = {}
        like = Curve(*np.zeros((3, points)))
        for name, curve in solver_curves._our_curves(task, like, prompts, seed=999):
            entries[solvers[name][0]] = {
                "mse": curve.mean.tolist(),
                "median": curve.median.tolist(),
                "std": (curve.error * np.sqrt(prompts)).tolist(),
                "n_prompts": prompts,
            }
        tasks[theirs] = {"solvers": entries}
    path.write_text(json.dumps({"tasks": tasks}), encoding="utf-8")
    return path


def test_it_measures_and_writes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def a_while(step: Callable[[], object], *_: object) -> Times:
        step()
        return Times(wall=72.0, user=36.0, system=0.0)

    monkeypatch.setattr("reloop.benchmarks.solvers.measure", a_while)
    path = tmp_path / "solvers.json"
    assert main([*SMALL, f"json={path}"]) == 0
    report = json.loads(path.read_text(encoding="utf-8"))
    assert report["size"] == {"prompts": 12, "points": 7, "dims": 4}
    assert set(report["lasso"]) == {f"{alpha:g}" for alpha in ALPHAS}
    for found in report["lasso"].values():
        assert found["problems"] == {"scikit_learn": 12, "ours": 72}
        assert found["largest_gap"]["ours"] <= 2e-12
        assert found["scikit_learn_above_tolerance"] == 0
        assert -1e-15 < found["largest_gap"]["scikit_learn"] <= 1.01e-10
        assert found["per_problem"]["ours"] == {"wall_s": [1.0] * 2, "cpu_s": [0.5] * 2}
        assert found["ratio_wall"] == {"low": 6.0, "middle": 6.0, "high": 6.0}
    assert report["exact_solvers"]["all_three_wall_s"] == [216.0] * 2
    assert 1280 * 101 * 8 < report["bootstrap"]["peak_bytes"] < 2**30
    assert "curves" not in report
    rows = capsys.readouterr().out.splitlines()
    assert [row.split()[0] for row in rows[1:5]] == [
        *("least_squares", "averaging", "nearest_neighbours", "all")
    ]


def test_the_gap_is_scikit_learns() -> None:
    rng = np.random.default_rng(0)
    xs, ys = rng.normal(size=(2, 5, 3)), rng.normal(size=(2, 5))
    weights = np.zeros((3, 6, 3))
    expected = []
    for b in range(2):
        for k in range(1, 5):
            solver = Lasso(0.05, fit_intercept=False, tol=0.03).fit(xs[b, :k], ys[b, :k])
            weights[b, k] = solver.coef_
            expected.append(solver.dual_gap_ / np.square(ys[b, :k]).mean())
    assert max(expected) > 1e-4
    np.testing.assert_allclose(
        relative_gaps(xs, ys, weights, 0.05), expected, rtol=1e-6, atol=1e-12
    )


def test_z_counts_both_standard_errors() -> None:
    stored = Curve(np.full(41, 10.0), np.full(41, 7.0), np.full(41, 0.3))
    mean = np.full(41, 10.0)
    mean[3], mean[8], mean[18], mean[19] = 11.5, 8.9, 10.9, 12.0
    own = Curve(mean, np.full(41, 6.0), np.full(41, 0.4))
    found = agreement(stored, own, "averaging")
    assert (found["outside_2"], found["largest"], found["largest_beyond"]) == (2, 3.0, 4.0)
    assert found["z"] == [0.0] * 3 + [3.0] + [0.0] * 4 + [-2.2] + [0.0] * 9 + [1.8]
    mean[20], mean[21], mean[30] = 1e3, 1e3, 9.0
    exact = agreement(stored, own, "least_squares")
    assert exact["z"] == found["z"]
    assert "largest_beyond" not in exact
    assert exact["medians_near_d"] == {"k": [19, 20, 21], "own": [6.0] * 3, "stored": [7.0] * 3}
    assert exact["rounding_over_stored"] == 1.0


def test_curves_are_compared_seed_by_seed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stored = read_curves(curves_file(tmp_path / "curves.json", prompts=400, points=24))
    first, both = compare(stored, prompts=300, seeds=2)
    assert first["summary"]["linear"]["averaging"]["seeds"] == 1
    assert both["note"] == NOTE
    for task, (_, solvers) in TASKS.items():
        assert set(both["by_seed"][task]) == set(solvers)
        for name, found in both["by_seed"][task].items():
            total = both["summary"][task][name]
            assert (len(found), total["seeds"]) == (2, 2)
            assert found[0]["z"] != found[1]["z"]
            assert total["largest"] == max(one["largest"] for one in found) < 5
            assert total["share_within_2"] == pytest.approx(
                1 - sum(one["outside_2"] for one in found) / 38
            )
    out = capsys.readouterr().out
    assert NOTE in out
    assert out.count("least_squares") == 2 * 2 + 2


def test_a_wrong_curve_is_seen(tmp_path: Path) -> None:
    """Stored curves of another solver are far outside."""
    stored = read_curves(curves_file(tmp_path / "curves.json", prompts=400, points=23))
    for curves in stored.values():
        curves["averaging"] = curves["nearest_neighbours"]
    (found,) = compare(stored, prompts=300, seeds=1)
    for task in TASKS:
        assert found["by_seed"][task]["averaging"][0]["outside_2"] > 5


@pytest.mark.skipif(not SHARED.exists(), reason="../shared/baseline_curves.json is not there")
def test_the_references_own_solvers_give_the_same_curves() -> None:
    (found,) = compare(read_curves(SHARED), prompts=1000, seeds=1)
    for task, (_, solvers) in TASKS.items():
        for name in solvers:
            one = found["by_seed"][task][name][0]
            assert one["largest"] < 4, (task, name)
            assert one["outside_2"] <= 4, (task, name)
        exact = found["by_seed"][task]["least_squares"][0]
        assert exact["rounding_over_stored"] < 1
        near = exact["medians_near_d"]
        assert near["own"][0] == pytest.approx(near["stored"][0], rel=0.3)
        assert near["own"][1] < near["stored"][1]


@pytest.mark.parametrize("content", [None, "[]", '{"tasks": {}}'])
def test_a_file_that_is_none_is_told(
    content: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "curves.json"
    if content is not None:
        path.write_text(content, encoding="utf-8")
    assert main([f"curves={path}"]) == 2
    assert "curves.json is no file of stored curves" in capsys.readouterr().err
