"""`python -m experiments.stability`: it measures, draws and reports; mistakes are one line."""

from __future__ import annotations

import csv
import json
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from looplab.experiments.stability import changes, cosines, norms
from looplab.experiments.stability import near_init as first_steps_module
from looplab.experiments.stability.__main__ import main
from looplab.experiments.stability.near_init import Stack, first_steps, token_model
from looplab.experiments.stability.settings import FIGURES, INITS, StabilitySettings
from looplab.experiments.stability.tables import slopes
from tests.conftest import HOME

PARTS = ("mean", "standard_error")


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


def read(folder: Path, name: str) -> dict[str, Any]:
    """A figure's numbers; its pictures are there."""
    for picture in folder.glob(f"{name}*.png"):
        assert picture.read_bytes().startswith(b"\x89PNG")
        assert picture.with_suffix(".csv").exists()
    (path,) = folder.glob(f"{name}-*.json")
    result: dict[str, Any] = json.loads(path.read_text())
    return result


def columns(path: Path) -> dict[str, list[float]]:
    """Of the CSV that goes by this name, with a hash after the figure's."""
    figure = path.stem.partition("-by-")
    (path,) = path.parent.glob(f"{figure[0]}-{'?' * 12}{figure[1]}{figure[2]}.csv")
    with open(path, encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return {name: [float(row[name]) for row in rows] for name in rows[0]}


def over(curves: dict[str, Any]) -> dict[str, list[float]]:
    """What a CSV is to hold of curves."""
    return {f"{name}_{part}": curve[part] for name, curve in curves.items() for part in PARTS}


def at(curve: dict[str, Any], index: int) -> dict[str, list[float]]:
    """Of a curve with two axes, the values at one place of the second."""
    return {part: [row[index] for row in curve[part]] for part in PARTS}


def test_toy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = told(["figure=toy", "loops=[1,3]", "seeds=2"], tmp_path, capsys)
    assert re.fullmatch(rf"{tmp_path}: toy-(\w+).png, toy-\1.csv, toy-\1.json", lines[-1])
    result = read(tmp_path, "toy")
    curves = {
        f"{part}_{name.replace(' ', '_')}": curve
        for part in ("norm", "change")
        for name, curve in result[part].items()
    }
    assert columns(tmp_path / "toy.csv") == {"loops": [1, 3], **over(curves)}


def test_norms(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = told(["figure=norms", "init=strong", "loops=[1,3]", "seeds=2"], tmp_path, capsys)
    assert re.search(r"norms-strong-(\w+).png, norms-strong-\1.csv, norms-strong-\1", lines[-1])
    result = read(tmp_path, "norms-strong")
    table = {"step": [0.0, 1.0, 2.0]}
    for sharing, shared in (("looped", True), ("non_shared", False)):
        for scaling in ("none", "sqrt", "linear"):
            curve = result["norm"][sharing][scaling]
            for index, loops in enumerate((1, 3)):
                stack = Stack(loops, shared, scaling)
                expected = first_steps(INITS["strong"], stack, 1, 2).norm
                assert curve["by_seed"][1][index] == expected.tolist()
                table |= over(
                    {f"{sharing}_{scaling}_{loops}": {part: curve[part][index] for part in PARTS}}
                )
    assert columns(tmp_path / "norms-strong.csv") == table
    last = [mean[2] for mean in result["norm"]["non_shared"]["sqrt"]["mean"]]
    row = [line.split() for line in lines if line.startswith("non_shared sqrt")][1]
    assert row[2:] == [f"{value:.3g}" for value in (*last, last[1] / last[0])]


def test_changes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["figure=changes", "loops=[1,4,6]", "seeds=2", "seed=3"]
    lines = told(words, tmp_path, capsys)
    name = "changes-weak"
    result, weak = read(tmp_path, name), INITS["weak"]
    assert result["embedding_stds"] == [0.5, 1.0]
    table: dict[str, list[float]] = {"loops": [1, 4, 6]}
    for reading in ("raw", "normed"):
        for scaling in ("none", "sqrt", "linear"):
            curve = result["change"][reading][scaling]
            runs = [first_steps(weak, Stack(r, True, scaling), 4, 2) for r in (1, 4, 6)]
            changes = np.array([getattr(run, reading) for run in runs])
            assert curve["by_seed"][1] == changes.tolist()
            assert result["norm"][scaling]["by_seed"][1] == [run.norm[0] for run in runs]
            for step in (0, 1):
                table |= over({f"{reading}_{scaling}_step_{step + 1}": at(curve, step)})
            slope = slopes([1, 4, 6], changes.T, 4)
            assert result["slope"][reading][scaling]["by_seed"][1] == pytest.approx(slope.tolist())
            thin = weak._replace(embedding_std=0.5)
            firsts = [first_steps(thin, Stack(r, True, scaling), 4, 1) for r in (4, 6)]
            half = slopes([4, 6], np.array([getattr(run, reading)[0] for run in firsts]), 4)
            found = result["by_embedding"][reading][scaling]["by_seed"][1]
            assert found == pytest.approx([float(half), slope[0]])
    assert columns(tmp_path / f"{name}.csv") == table
    for suffix, axis, x, part in (
        ("by-step", "step", [1.0, 2.0], "slope"),
        ("by-embedding", "embedding_std", [0.5, 1.0], "by_embedding"),
    ):
        curves = {
            f"{reading}_{scaling}": curve
            for reading, scalings in result[part].items()
            for scaling, curve in scalings.items()
        }
        assert columns(tmp_path / f"{name}-{suffix}.csv") == {axis: x, **over(curves)}
    assert any("law of small branches" in line for line in lines)
    _check_report(lines, result)


def _check_report(lines: list[str], result: dict[str, Any]) -> None:
    rows = [line.split() for line in lines if line.startswith("none ")]
    norm = result["norm"]["none"]["mean"]
    assert rows[0][1:] == [f"{value:.3g}" for value in (*norm, norm[2] / norm[0])]
    step_1 = at(result["change"]["raw"]["none"], 0)["mean"]
    spread = max(step_1[1:]) / min(step_1[1:])
    assert rows[1][1:] == [f"{value:.3g}" for value in (*step_1, spread)]
    slope = result["slope"]["raw"]["none"]["mean"]
    assert rows[3][1:] == [f"{value:.2f}" for value in slope]
    slope = result["by_embedding"]["raw"]["none"]["mean"]
    assert rows[4][1:] == [f"{value:.2f}" for value in slope]


def test_cosines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = told(["figure=cosines", "init=paper_like", "seeds=2"], tmp_path, capsys)
    result = read(tmp_path, "cosines-paper_like")
    assert result["init"]["layers"] == 2
    table: dict[str, list[float]] = {"loop": [1, 2, 3]}
    for index, sharing in enumerate(("looped", "non_shared")):
        matrix = np.array(result["cosine"][sharing]["mean"])
        np.testing.assert_allclose(np.diagonal(matrix), 1)
        np.testing.assert_allclose(matrix, matrix.T)
        apart = (matrix.sum() - 3) / 6
        assert result["apart"][sharing]["mean"] == pytest.approx(apart)
        assert lines[1 + index].startswith(f"  {sharing}: {apart:.3f} ±")
        table |= {
            f"{sharing}_{loop}": row.tolist() for loop, row in zip("123", matrix, strict=True)
        }
    assert columns(tmp_path / "cosines-paper_like.csv") == table


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
        assert all(callable(getattr(module, name)) for name in ("measure", "report", "draw"))


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
