"""A byte that is another one, or a file that was cut, anywhere in a run folder: no traceback, no
other number shown, and nothing of what was altered used in silence."""

import json
import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from looplab import main as run
from looplab.probing import __main__ as probing
from looplab.probing.dynamics import __main__ as dynamics
from tests.conftest import without_rendering

pytestmark = pytest.mark.usefixtures("undrawn")

_TINY = [
    *("task=linear", "task.dims=2", "task.points=5", "model.n_embd=16", "model.n_head=2"),
    *("curriculum.dims.start=null", "loops.b=3", "loops.T=3", "training.steps=20"),
    *("training.batch_size=8", "training.checkpoint_every=10", "training.log_every=5"),
    *("training.warmup=0", "evaluation.prompts=24", "evaluation.resamples=20"),
    *("evaluation.max_loops=4", "evaluation.loops=null", "device=cpu"),
]
_PROBES = ["targets=[gradient]", "steps=3", "batch_size=8", "prompts=24", "resamples=20", "seeds=1"]
# What a command says of a file that it does not trust, or of what it does in its place.
_SAID = re.compile(
    r"altered|damaged|missing|cannot be read|again|is used|left out|no JSON|not '|resuming from"
    r"|^step \d|^  since it began|device cpu|\[.*\d+[:<]\d+"
)
_NEVER_READ = {".lock", ".evaluation.lock", ".probing.lock", ".dynamics.lock"}


def _commands(folder: Path) -> list[tuple[Callable[[list[str]], int], list[str]]]:
    path = f"run={folder}"
    return [
        (run.main, [*_TINY, f"folder={folder.parent}"]),
        (run.main, ["action=evaluate", path, "evaluation.shifts=[noise]", "device=cpu"]),
        (probing.main, [path, *_PROBES, "device=cpu"]),
        (dynamics.main, [path, "loops=6", "prompts=4", "device=cpu"]),
    ]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was evaluated twice, probed and followed."""
    parent = tmp_path_factory.mktemp("damaged") / "runs"
    with pytest.MonkeyPatch.context() as patch:
        without_rendering(patch)  # as pictures that are drawn again
        assert run.main([*_TINY, f"folder={parent}"]) == 0
        (folder,) = parent.iterdir()
        for command, words in _commands(folder)[1:]:
            assert command(words) == 0
    return folder


@pytest.mark.parametrize("damages", [3, pytest.param(500, marks=pytest.mark.slow)])
def test_no_damage_shows_another_number(
    damages: int, trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = tmp_path / "whole"
    shutil.copytree(trained, whole)
    capsys.readouterr()
    expected = [_shown(command, words, capsys) for command, words in _commands(trained)]
    files = sorted(path.relative_to(whole) for path in whole.rglob("*") if path.is_file())
    random_ = random.Random(damages)
    for number in range(damages):
        name = files[number % len(files)]
        shutil.rmtree(trained)
        shutil.copytree(whole, trained)
        if name.parts[0] == "cache":  # read where no result is kept yet
            shutil.rmtree(trained / "evaluations")
        if name.stem == "00000010":  # read where the newer checkpoint is not there
            for path in (trained / "checkpoints").glob("00000020.*"):
                path.unlink()
        what = _damage(trained / name, random_)
        said = ""
        for (command, words), (code, lines, _) in zip(_commands(trained), expected, strict=True):
            found, shown, text = _shown(command, words, capsys)
            said += text
            assert "Traceback" not in text, (name, what, text)
            if found != code:
                assert found in (1, 2), (name, what, text)
                continue
            missing = [line for line in lines if line not in shown]
            assert not missing, (name, what, missing, text)
            assert not [line for line in shown if line not in lines], (name, what, text)
        told = name.name in said or str(name) in said
        as_before = _means(trained / name) == _means(whole / name)
        assert told or as_before or name.name in _NEVER_READ, (name, what, said)


def _shown(
    command: Callable[[list[str]], int], words: list[str], capsys: pytest.CaptureFixture[str]
) -> tuple[int, list[str], str]:
    """Exit code, the lines of results, and all that a command says."""
    code = command(words)
    captured = capsys.readouterr()
    text = captured.out + captured.err
    lines = [line for line in captured.out.splitlines() if line and not _SAID.search(line)]
    return code, lines, text


def _damage(path: Path, random_: random.Random) -> str:
    """Change one byte, or cut the file: which."""
    content = bytearray(path.read_bytes())
    if not content or random_.random() < 0.3:
        cut = random_.randrange(len(content)) if content else 0
        path.write_bytes(content[:cut] if content else b"x")
        return f"cut to {cut} bytes"
    place = random_.randrange(len(content))
    content[place] ^= 1 << random_.randrange(8)
    path.write_bytes(content)
    return f"byte {place} is {content[place]}"


def _means(path: Path) -> Any:
    """What a file says to those who read it; its bytes, where it is no text."""
    try:
        if path.suffix == ".json":
            found = json.loads(path.read_text())
            # Who wrote it, when, and how long it took are another's each time.
            parts = ("pid", "time", "checksum", "seconds", "cpu_seconds", "files")
            return {key: value for key, value in found.items() if key not in parts}
        if path.suffix == ".jsonl":
            lines = [json.loads(line) for line in path.read_text().splitlines()]
            return [{k: v for k, v in line.items() if k in ("step", "loss")} for line in lines]
        if path.suffix == ".yaml":
            return yaml.safe_load(path.read_text())
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as arrays:
                return {name: array.tobytes() for name, array in arrays.items()}
        return path.read_bytes()
    except Exception:  # damaged, and left so
        return None
