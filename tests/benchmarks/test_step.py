"""The step's benchmark: variants take turns, each in its process, and one that fails stops no
other; a step of the reference is made by its own files; the settings are the command line's."""

import json
import os
import time
from collections.abc import Callable
from dataclasses import astuple, dataclass
from itertools import count
from pathlib import Path

import pytest
import torch

from looplab.benchmarks.paired_times import Contender, PairedTimes, measure, warm_up
from looplab.benchmarks.reference import Reference
from looplab.benchmarks.settings import StepSettings, at_full_size, named_config
from looplab.benchmarks.step import compare, main, rows_of
from looplab.benchmarks.variants import Step, Variant
from looplab.conf.schema import Config
from looplab.models.kernels.variants import VARIANTS
from looplab.training.assemble import build_curriculum, build_task

# As much of the reference's interface as a step uses, written for these tests: a linear model.
_FILES = {
    "nano_gpt": "",
    "tasks": """
import torch

class Task:
    def __init__(self, batch, points, dims, visible, device):
        self.xs = torch.randn(batch, points, dims, device=device).double()
        self.xs[..., visible:] = 0
        self.ys = self.xs.sum(-1)

def get_task_sampler(task_name, batch_size, n_points, n_dims, n_dims_truncated, device, sparsity):
    assert (task_name, sparsity) == ("sparse_linear_regression", 2)
    return lambda: Task(batch_size, n_points, n_dims, n_dims_truncated, device)
""",
    "curriculum": """
class Curriculum:
    def __init__(self, args):
        self.n_dims_truncated, self.n_points = args.dims.start, args.points.start
        self.n_loops, self.updates = args.loops.start, 0

    def update(self):
        self.updates += 1
""",
    "models": """
import nano_gpt
import torch

class Linear(torch.nn.Module):
    def __init__(self, dims):
        super().__init__()
        self.layer = torch.nn.Linear(dims, 1)

    def forward(self, xs):
        print("one forward")
        return self.layer(xs).squeeze(-1)

def build_model(args):
    print("a size")
    return Linear(args.n_dims)
""",
    "main_utils": "",
    "train": """
import wandb
from quinine import QuinineArgumentParser
from curriculum import Curriculum
from schema import schema
from models import build_model
from tasks import get_task_sampler

seen = []

def train_step(args, curriculum, model, xs, ys, optimizer, ctx, scaler):
    seen.append((xs.shape, xs.dtype, curriculum.n_loops, args.training.n_loop_window))
    loss = (model(xs) - ys).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return loss.detach(), None, 0.0, {}
""",
}


def write_checkout(folder: Path) -> Path:
    """Write the files; the folder."""
    (folder / "scripts").mkdir()
    for name, text in _FILES.items():
        (folder / "scripts" / f"{name}.py").write_text(text, encoding="utf-8")
    return folder


SMALL = ["configs=small", "device=cpu", "pairs=2"]


@pytest.mark.slow
def test_it_measures_every_variant(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    checkout, path = write_checkout(tmp_path), tmp_path / "new" / "step.json"
    words = [
        *SMALL,
        f"reference={checkout}",
        "precision=fp32",
        "backend=[cpu,eager]",
        f"json={path}",
    ]
    assert main(words) == 0
    names = ["reference eager fp32", "ours cpu fp32", "ours eager fp32"]
    printed = capsys.readouterr().out.splitlines()
    assert [line[: len(name)] for line, name in zip(printed[-3:], names, strict=True)] == names
    report = json.loads(path.read_text(encoding="utf-8"))
    assert report["torch"] == torch.__version__
    assert report["date"]
    assert report["device"]
    assert report["basis"] == "cpu"
    measured = report["settings"]["small"]
    assert (measured["turns"], measured["clocks"]) == (2, None)
    assert measured["flops"] == pytest.approx(3.5e9, rel=0.05)
    assert [row["name"] for row in measured["variants"]] == names
    reference, ours, _ = measured["variants"]
    assert ours["ratios"].keys() == {"reference eager"}
    pairs = [
        theirs / mine
        for theirs, mine in zip(reference["seconds"]["cpu"], ours["seconds"]["cpu"], strict=True)
    ]
    ratio = ours["ratios"]["reference eager"]
    assert min(pairs) <= ratio["low"] <= ratio["middle"] <= ratio["high"] <= max(pairs)
    assert "peak_bytes" not in ours  # what was not measured is not there


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("configs=sparce", "did you mean 'sparse'?"),
        ("reference=nowhere", "nowhere holds no scripts"),
    ],
)
def test_a_mistake_is_one_line(words: str, named: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["device=cpu", words]) == 2
    told = capsys.readouterr()
    assert (told.out, told.err.count("\n")) == ("", 1)
    assert named in told.err


def test_full_size_is_the_curriculums_end() -> None:
    config = at_full_size(named_config("sparse"))
    assert astuple(build_curriculum(config, build_task(config))(0)) == (20, 41, 20, 10, 10, 20)


CPU = torch.device("cpu")


def _raise() -> None:
    raise RuntimeError("no such\nkernel")


ENDS: dict[str, Callable[[], object]] = {
    "raises": _raise,
    "exits": lambda: os._exit(3),
    "hangs": lambda: time.sleep(60),
}


@dataclass(frozen=True)
class Fake(Variant):
    """A variant whose steps, long enough for a measurement each, add a line with its backend to a
    file, until one of them, counted from 0, ends as `precision` says."""

    file: str = ""
    last: int = 1000

    def build(self, config: Config, device: torch.device) -> Step:
        steps = count()

        def step() -> None:
            if next(steps) == self.last:
                ENDS[self.precision]()
            time.sleep(0.2)
            with open(self.file, "a", encoding="utf-8") as file:
                file.write(self.backend)

        return step


def run(variants: list[Variant], limit: float | None = None) -> tuple[PairedTimes, list[int]]:
    """What three turns measure, and the turns at each time when it was saved."""
    settings = StepSettings(pairs=3, limit=limit)
    turns, saved = PairedTimes(at_full_size(named_config("small")), CPU, settings), list[int]()
    turns.take(variants, lambda: saved.append(turns.turns))
    return turns, saved


def test_those_that_fail_leave_the_others_their_turns(tmp_path: Path) -> None:
    file = str(tmp_path / "steps")
    measured, saved = run(
        [
            Fake("ours", "b", "exits", file=file, last=0),
            Fake("reference", "a", "fp32", file=file),
            Fake("ours", "c", "raises", file=file, last=2),
        ]
    )
    assert measured.failures == {
        "ours b exits": "its process ended with code 3",
        "ours c raises": "RuntimeError: no such kernel",
    }
    (whole,) = measured.whole()
    assert len(whole.times) == 3
    assert saved == [0, 1, 2, 3]
    assert Path(file).read_text(encoding="utf-8") == "acacaa"  # one step each for warming up


def test_what_was_stopped_keeps_its_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C in the middle of the third of seven."""
    path, ask, questions = tmp_path / "step.json", Contender.answer, list[Contender]()

    def stops(self: Contender, question: str = "") -> object:
        questions.append(self)
        if len(questions) == 8:  # the first two for being ready
            raise KeyboardInterrupt
        return ask(self, question)

    monkeypatch.setattr(Contender, "answer", stops)
    variants: list[Variant] = [
        Fake("reference", name, "fp32", file=str(tmp_path / "steps")) for name in "ab"
    ]
    settings = StepSettings(configs=("small",), device="cpu", json=str(path))
    with pytest.raises(KeyboardInterrupt):
        compare(variants, settings, CPU)
    kept = json.loads(path.read_text(encoding="utf-8"))["settings"]["small"]
    assert kept["turns"] == 2
    assert [len(row["seconds"]["wall"]) for row in kept["variants"]] == [2, 2]
    assert not any(each.process.is_alive() for each in questions)


@pytest.mark.skipif(torch.cuda.is_available(), reason="kernels are not interpreted beside a GPU")
def test_a_row_says_which_kernels_were_timed(tmp_path: Path) -> None:
    """No table has a row for the interpreter: all of the kernels' products are cuBLAS's."""
    pytest.importorskip("triton")
    file = str(tmp_path / "steps")
    ours = [Fake("ours", backend, "fp32", file=file) for backend in ("triton", "cpu")]
    measured, _ = run([*ours, Fake("reference", "eager", "fp32", file=file)])
    rows = rows_of(measured, "wall")
    assert rows[0]["kernels"]["variants"] == dict.fromkeys(VARIANTS, "cublas")
    assert all("kernels" not in row for row in rows[1:])


def test_a_short_step_is_made_many_times() -> None:
    made = []
    repeats = warm_up(lambda: made.append(1), 3, CPU)
    assert repeats > 100
    made.clear()
    times = measure(lambda: made.append(1), repeats, CPU)
    assert len(made) == repeats
    assert times["wall"] > 0
    assert times["cpu"] == pytest.approx(times["user"] + times["system"])
    assert warm_up(lambda: time.sleep(0.2), 1, CPU) == 1


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
