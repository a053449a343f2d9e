"""Each test works in a folder of its own with a text of ten documents; the words of a small
training on it, and its run folder."""

import os
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from tests.conftest import HOME


@pytest.fixture(autouse=True)
def in_a_folder_with_a_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, undrawn: dict[str, Figure]
) -> None:
    monkeypatch.chdir(tmp_path)
    documents = [f"the {name} sat on the mat and saw the {name}.\n" * 8 for name in "abcdefghij"]
    (tmp_path / "text.txt").write_text("<|endoftext|>\n".join(documents))


WORDS = [
    *("task=language", "task.text=text.txt", "task.held_out=0.2", "task.points=16"),
    *("model.n_embd=16", "model.n_head=2", "model.n_positions=16", "loops.b=2", "loops.T=2"),
    *("curriculum.loops.start=2", "training.steps=60", "training.batch_size=8"),
    *("training.checkpoint_every=20", "training.log_every=20", "training.warmup=0"),
    *("evaluation.prompts=20", "evaluation.resamples=20", "evaluation.loops=2"),
    *("evaluation.max_loops=3", "device=cpu"),
]


def offline(folder: Path) -> dict[str, str]:
    """The environment of a process that finds this package, and does not ask the network."""
    paths = [str(HOME), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {
        "HF_HUB_OFFLINE": "1",
        "HF_HOME": str(folder / "cache"),
        "PYTHONPATH": os.pathsep.join(paths),
    }


def only_run() -> Path:
    (path,) = (each for each in Path("runs").glob("language-*") if "before" not in each.name)
    return path
