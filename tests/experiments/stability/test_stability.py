"""`python -m experiments.stability`: it measures, draws and reports; mistakes are one line."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from looplab.evaluation.panel import Panel
from looplab.experiments.stability import changes, cosines, norms
from looplab.experiments.stability import near_init as first_steps_module
from looplab.experiments.stability.__main__ import main
from looplab.experiments.stability.near_init import Stack, first_steps, token_model
from looplab.experiments.stability.settings import FIGURES, INITS, StabilitySettings
from looplab.experiments.stability.tables import slopes
from tests.conftest import HOME, times_of


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few steps and few loops."""
    for module, name, value in (
        *((module, "STEPS", 2) for module in (changes, norms, first_steps_module)),
        (changes, "_FACTORS", (0.5,)),
        (cosines, "LOOPS", 3),
        (cosines, "LAYERS", 2),
    ):
        monkeypatch.setattr(module, name, value)


def told(words: list[str], folder: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The lines of a command that does what it is asked."""
    assert main([*words, f"folder={folder}"]) == 0
    return capsys.readouterr().out.splitlines()


def read(folder: Path, name: str, *pictures: str) -> tuple[dict[str, Any], dict[str, Panel]]:
    """A figure's numbers and its panels; its pictures are those of these names."""
    (path,) = folder.glob(f"{name}-*.json")
    files = {file.name for file in path.with_suffix("").iterdir()}
    assert files == {f"{picture}.{form}" for picture in pictures for form in ("png", "csv")}
    for picture in pictures:
        assert (path.with_suffix("") / f"{picture}.png").read_bytes().startswith(b"\x89PNG")
    result: dict[str, Any] = json.loads(path.read_text())
    return result, {each["name"]: Panel.read(each) for each in result["panels"]}


def at(curve: dict[str, Any], index: int) -> list[float]:
    """Of a curve with two axes, the means at one place of the second."""
    return [row[index] for row in curve["mean"]]


def test_toy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["figure=toy", "loops=[1,3]", "seeds=2"]
    lines = told(words, tmp_path, capsys)
    files = r"toy-(\w+)/toy.png, toy-\1/toy.csv, toy-\1.json"
    assert re.fullmatch(rf"{tmp_path}: {files}", lines[-1])
    result, panels = read(tmp_path, "toy", "toy")
    assert panels["toy-norm"].curves[1].mean == result["norm"]["looped sqrt"]["mean"]
    # Found again, drawn again where a picture is missing.
    kept = times_of(tmp_path, "measured/*")
    (picture,) = tmp_path.glob("*/toy.png")
    picture.unlink()
    assert told(words, tmp_path, capsys)[-1] == lines[-1]
    assert times_of(tmp_path, "measured/*") == kept
    assert picture.exists()


def test_norms(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = told(["figure=norms", "init=strong", "loops=[1,3]", "seeds=2"], tmp_path, capsys)
    result, panels = read(tmp_path, "norms-strong", "norms")
    assert len(panels) == 6
    for sharing, shared in (("looped", True), ("non_shared", False)):
        for scaling in ("none", "sqrt", "linear"):
            curve = result["norm"][sharing][scaling]
            panel = panels[f"norms-{sharing.replace('_', '-')}-{scaling}"]
            assert panel.x == [0, 1, 2]
            assert [each.number for each in panel.curves] == [1, 3]
            for index, loops in enumerate((1, 3)):
                stack = Stack(loops, shared, scaling)
                expected = first_steps(INITS["strong"], stack, 1, 2).norm
                assert curve["by_seed"][1][index] == expected.tolist()
                assert panel.curves[index].mean == pytest.approx(curve["mean"][index])
    last = [mean[2] for mean in result["norm"]["non_shared"]["sqrt"]["mean"]]
    row = [line.split() for line in lines if line.startswith("non_shared sqrt")][1]
    assert row[2:] == [f"{value:.3g}" for value in (*last, last[1] / last[0])]


def test_changes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["figure=changes", "loops=[1,4,6]", "seeds=2", "seed=3"]
    lines = told(words, tmp_path, capsys)
    pictures = ("changes", "changes-steps", "changes-by-step", "changes-by-embedding")
    result, panels = read(tmp_path, "changes-weak", *pictures)
    weak = INITS["weak"]
    assert result["embedding_stds"] == panels["changes-by-embedding-raw"].x == [0.5, 1.0]
    for reading in ("raw", "normed"):
        for place, scaling in enumerate(("none", "sqrt", "linear")):
            curve = result["change"][reading][scaling]
            runs = [first_steps(weak, Stack(r, True, scaling), 4, 2) for r in (1, 4, 6)]
            changes = np.array([getattr(run, reading) for run in runs])
            assert curve["by_seed"][1] == changes.tolist()
            assert result["norm"][scaling]["by_seed"][1] == [run.norm[0] for run in runs]
            slope = slopes([1, 4, 6], changes.T, 4)
            assert result["slope"][reading][scaling]["by_seed"][1] == pytest.approx(slope.tolist())
            thin = weak._replace(embedding_std=0.5)
            firsts = [first_steps(thin, Stack(r, True, scaling), 4, 1) for r in (4, 6)]
            half = slopes([4, 6], np.array([getattr(run, reading)[0] for run in firsts]), 4)
            found = result["by_embedding"][reading][scaling]["by_seed"][1]
            assert found == pytest.approx([float(half), slope[0]])
            step_1 = panels[f"changes-step-1-{reading}"].curves[place]
            assert step_1.kind == scaling
            assert step_1.mean == pytest.approx(at(curve, 0))
            by_step = panels[f"changes-by-step-{reading}-{scaling}"].curves
            for drawn, mean in zip(by_step, curve["mean"], strict=True):
                assert drawn.mean == pytest.approx(mean)
            for part in ("slope", "by_embedding"):
                drawn = panels[f"changes-{part.replace('_', '-')}-{reading}"].curves[place]
                assert drawn.mean == pytest.approx(result[part][reading][scaling]["mean"])
    assert any("law of small branches" in line for line in lines)
    _check_report(lines, result)


def _check_report(lines: list[str], result: dict[str, Any]) -> None:
    rows = [line.split() for line in lines if line.startswith("none ")]
    norm = result["norm"]["none"]["mean"]
    assert rows[0][1:] == [f"{value:.3g}" for value in (*norm, norm[2] / norm[0])]
    step_1 = at(result["change"]["raw"]["none"], 0)
    spread = max(step_1[1:]) / min(step_1[1:])
    assert rows[1][1:] == [f"{value:.3g}" for value in (*step_1, spread)]
    slope = result["slope"]["raw"]["none"]["mean"]
    assert rows[3][1:] == [f"{value:.2f}" for value in slope]
    slope = result["by_embedding"]["raw"]["none"]["mean"]
    assert rows[4][1:] == [f"{value:.2f}" for value in slope]


def test_cosines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = told(["figure=cosines", "init=paper_like", "seeds=2"], tmp_path, capsys)
    result, panels = read(tmp_path, "cosines-paper_like", "cosines", "cosines-by-distance")
    assert result["init"]["layers"] == 2
    for index, sharing in enumerate(("looped", "non_shared")):
        matrix = np.array(result["cosine"][sharing]["mean"])
        np.testing.assert_allclose(np.diagonal(matrix), 1)
        np.testing.assert_allclose(matrix, matrix.T)
        apart = (matrix.sum() - 3) / 6
        assert result["apart"][sharing]["mean"] == pytest.approx(apart)
        assert lines[1 + index].startswith(f"  {sharing}: {apart:.3f} ±")
        assert panels[f"cosines-{sharing.replace('_', '-')}"].matrix == matrix.tolist()
        (curve,) = panels["cosines-by-distance"].curves[index : index + 1]
        assert curve.mean == pytest.approx([np.diagonal(matrix, 1).mean(), matrix[0, 2]])


def test_the_mean_of_a_diagonal_is_over_what_it_has() -> None:
    nan = np.nan
    matrices = np.array([[[1, 0.5, nan], [0.5, 1, nan], [nan, nan, nan]]])
    np.testing.assert_array_equal(cosines.by_distance(matrices, 4), [[0.5, nan, nan]])


def test_cosines_are_of_what_a_loop_adds() -> None:
    init, stack = INITS["strong"]._replace(layers=2), Stack(3, False, "none")
    found = cosines.increment_cosines(init, stack, 5)
    model, tokens = token_model(init, stack, 5)
    streams = [stream[0].detach().double().numpy() for stream in model.streams(tokens)]
    first, last = streams[1] - streams[0], streams[3] - streams[2]
    lengths = np.linalg.norm(first, axis=1) * np.linalg.norm(last, axis=1)
    assert found[0, 2] == pytest.approx(((first * last).sum(1) / lengths).mean())


def test_every_figure_has_its_module() -> None:
    for name, figure in FIGURES.items():
        module = import_module(f"looplab.experiments.stability.{figure.module or name}")
        assert all(callable(getattr(module, name)) for name in ("measure", "report", "panels"))


MISTAKES = {
    "": "figure must be given",
    "figure=toys": "figure cannot be 'toys'; did you mean 'toy'?",
    "figure=norms init=week": "init cannot be 'week'; did you mean 'weak'?",
    "figure=toy init=strong": "init does not bear on figure=toy",
    "figure=cosines loops=[4]": "loops does not bear on figure=cosines",
    "figure=toy loops=[]": "loops must be rising numbers of at least 1, got []",
    "figure=toy loops=[0,1]": "loops must be rising numbers of at least 1, got [0, 1]",
    "figure=toy loops=[4,2]": "loops must be rising numbers of at least 1, got [4, 2]",
    "figure=changes loops=[1,2,4]": (
        "loops must hold two numbers from 4 on, over which slopes are taken, got [1, 2, 4]"
    ),
    "figure=toy seeds=1": "seeds must be at least 2, got 1",
    "figure=toy seed=-1": "seed must be at least 0, got -1",
    f"figure=toy seed={2**62}": f"seed must be below 2^62, got {2**62}",
    "figure=toy folder=README.md": "folder must be a folder or a new one's path, got 'README.md'",
    "figure=toy lops=3": "lops is not a setting; did you mean 'loops'?",
}


def test_a_mistake_is_one_line_without_torch() -> None:
    code = (
        "import sys; from looplab.experiments.stability.__main__ import main\n"
        f"for words in {list(MISTAKES)!r}: assert main(words.split()) == 2\n"
        "assert 'torch' not in sys.modules\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=HOME, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert done.stderr.splitlines() == [
        f"experiments.stability: {line}" for line in MISTAKES.values()
    ]


def test_help_names_every_figure_without_torch() -> None:
    code = (
        "import sys; from looplab.experiments.stability.__main__ import main\n"
        "assert main(['--help']) == 0\n"
        "assert 'torch' not in sys.modules\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=HOME, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    for name, figure in FIGURES.items():
        at = lines.index(f"  {name.ljust(12)}  {figure.shows}")
        if name != "trained":
            own = dict(word.split("=") for word in lines[at + 1].split())
            assert own["seeds"] == str(figure.seeds)
            assert own.get("init", "weak") == ("strong" if name == "norms" else "weak")
            loops = f"[{','.join(map(str, figure.loops))}]"
            assert own.get("loops", loops) == loops
            assert ("rates" in own) == bool(figure.rates)
    assert "  weak        U = 1, embedding std 1, block std 0.01, AdamW 0.0001" in lines
    assert max(map(len, lines)) <= 100


def test_files_are_called_after_figure_and_setting() -> None:
    assert StabilitySettings("toy").name == "toy"
    assert StabilitySettings("changes", "paper_like").name == "changes-paper_like"
    assert StabilitySettings("changes").name == "changes-weak"
    assert StabilitySettings("norms").name == "norms-strong"  # weak branches move no norm
