"""What commands print fits a terminal of 80, 100 and 140 characters, and no number is broken; the
command goes by its name, alone it starts nothing, and a grid is planned without a training."""

import re
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from looplab import main as run
from looplab.conf.words import as_called
from looplab.evaluation.bootstrap import Interval
from looplab.evaluation.core import CoreScore
from looplab.evaluation.verdict import Verdict
from looplab.experiments.scaling_law import __main__ as scaling_law
from looplab.probing import __main__ as probing
from looplab.probing.dynamics import __main__ as dynamics
from looplab.show import tables
from looplab.show.core_table import core_table
from looplab.show.tables import Part, Table, document
from looplab.show.verdicts import verdict_parts
from tests.conftest import Command
from tests.openml_eval.leave_one_out.test_leave_one_out_report import MINE, POLLEN, told
from tests.openml_eval.leave_one_out.test_leave_one_out_report import run as scored

_FEW = ["evaluation.prompts=16", "evaluation.resamples=5"]
_TINY = ["model.n_embd=8", "model.n_head=2", "training.steps=0", *_FEW]
_VERDICT = Verdict(
    claim="a", sentence="Looped models have an error below that of standard ones on 20 inputs.",
    source="", quantity="error, looped over standard, mean over k", published="0.141 against 0.163",
    published_steps=500_000, mean=0.98312, low=0.97912, high=0.98641, line=1.1,
    holds_if="below", verdict="holds", seeds=10, steps=50_000, note="10 seeds", command="",
)  # fmt: skip


@pytest.fixture
def printed_parts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, undrawn: dict[str, Figure]
) -> list[Part]:
    """The sentences and tables that are made into text from here on, in an empty folder."""
    found, lines = list[Part](), tables._lines

    def kept(part: Part, width: int) -> list[str]:
        found.append(part)
        return lines(part, width)

    monkeypatch.setattr(tables, "_lines", kept)
    monkeypatch.chdir(tmp_path)
    return found


def _numbers(text: str) -> Counter[str]:
    """The words of a text that hold digits."""
    return Counter(re.findall(r"[^\s();]*\d[^\s();]*", text))


def _check(part: Part, width: int) -> None:
    """No line is wider, and every column is there with all its numbers or named as left out."""
    body, _, said = document([part], width=width).partition("columns left out at this width: ")
    assert max(map(len, f"{body}{said}".split("\n"))) <= width
    if isinstance(part, Table):
        names = " ".join(said.split()).partition(". COLUMNS=")[0]
        left_out, kept = names.split("; ") if said else [], list[str]()
        for head, *cells in reversed([*zip(*part.cells(), strict=True)]):
            if head in left_out:
                left_out.remove(head)
            else:
                kept += [head, *cells]
        assert not left_out
        assert _numbers(body) == _numbers(" ".join(kept))


def test_tables_of_all_commands_fit(printed_parts: list[Part]) -> None:
    compared = ["action=compare", "runs=shipped/linear,shipped/linear-standard", *_FEW]
    assert (
        run.main(["action=evaluate", "run=shipped/linear", "evaluation.shifts=noise", *_FEW]) == 0
    )
    assert run.main(compared) == 0
    grid = ["-m", "task=linear", "seed=0,1", "model.injection=add,multiply", *_TINY]
    assert run.main([*grid, "jobs=1"]) == 0
    assert run.main([*grid, "action=plan"]) == 0
    assert run.main(["experiment=fig02,fig03", "action=plan", "scale=paper"]) == 0
    assert run.main(["action=list"]) == 0
    few = ["run=shipped/linear", "prompts=16", "loops=12"]
    steps = ["targets=least_squares", "steps=2", "batch_size=8", "seeds=2", "resamples=5"]
    assert probing.main([*few, *steps]) == 0
    assert dynamics.main(few) == 0
    assert scaling_law.main(["table=minima", "resamples=20", "size=1e8", "budget=1e19"]) == 0
    told(scored(POLLEN, 1.0, 0.9), scored(MINE, 0.6, 0.45))
    document(verdict_parts([_VERDICT]))
    each = CoreScore(10_042, 12, 0.2512, 0.25, Interval(*np.array([-0.00123, -0.0104, 0.0213])))
    core_table({"bigbench_language_identification": each}, each.centred)
    assert sum(isinstance(part, Table) for part in printed_parts) > 15
    for part in [*printed_parts]:
        for width in (80, 100, 140):
            _check(part, width)


def test_alone_it_says_how_to_start_and_starts_nothing(
    command: Command, printed_parts: list[Part]
) -> None:
    assert "python run.py task=linear" in command()
    planned = command("-m", "task=linear", "seed=0,1", *_TINY, "action=plan")
    assert "0 of 2 runs are to be trained" in planned
    assert not [*Path().iterdir()]


def test_it_goes_by_the_name_it_was_called_by(monkeypatch: pytest.MonkeyPatch) -> None:
    said = "run.py: python run.py seed=1; torchrun --nproc-per-node=2 run.py; python -m probing"
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", None)
    monkeypatch.setattr(sys, "argv", ["/usr/bin/looplab"])
    assert as_called(said) == (
        "looplab: looplab seed=1; torchrun --nproc-per-node=2 -m looplab; python -m looplab.probing"
    )
    monkeypatch.setattr(sys, "argv", ["/home/looplab/run.py"])
    assert as_called(said) == said
