"""Slips in a user's file: each is one line with file and line, before anything is trained."""

from collections.abc import Callable
from pathlib import Path

import pytest

from looplab.main import main
from tests.training import tiny

WORDS = [*tiny.WORDS, "task=slip", "evaluation.baselines=[slip]", "model.injection=slip"]
CODE = """
from dataclasses import dataclass, field
import numpy as np
import torch
from looplab import Task, register_baseline, register_loop, register_shift, register_task
from looplab.models.loops.loop import PLAIN, SharedLoop
import beside

@register_task("slip")
@dataclass(frozen=True)
class Slip(Task):
    level: float = 2.0
    @property
    def divisor(self):
        return float(self.dims)
    def parameters(self, random, dims):
        return random.normal(self.dims)
    def outputs(self, xs, w):
        return (xs @ w[:, :, None]).squeeze(2)

@register_baseline("slip")
def last(xs, ys, queries):
    return 0 * ys

@register_loop("slip")
class Gate(SharedLoop):
    def __init__(self, spec):
        super().__init__(spec, "add")
        self.gate = torch.nn.Parameter(torch.empty(spec.n_embd))
    def initialise(self):
        self.gate.fill_(2.0)
    def step(self, state, e, t, context=PLAIN):
        return super().step(state._replace(stream=state.stream * self.gate), e, t, context)
"""
FIELD, DIVISOR, ANSWER = "    level: float = 2.0", "float(self.dims)", "    return 0 * ys"
DRAW, VALUES = "random.normal(self.dims)", "(xs @ w[:, :, None]).squeeze(2)"
TASK, SOLVER, LOOP = "class Slip(Task):", "def last(xs, ys, queries):", "class Gate(SharedLoop):"
PROPERTY, PARAMETERS = "    def divisor(self):", "    def parameters(self, random, dims):"
OUTPUTS, STEP = "    def outputs(self, xs, w):", "    def step(self, state, e, t, context=PLAIN):"
OTHER, INIT = "def other(*pairs): pass", "    def __init__(self, spec):"
START = "    def start(self, e): return e"
# By what the line says: what is changed in the file, and which line is named, if not the new one.
SLIPS = {
    # read
    "SyntaxError": (OUTPUTS, "    def outputs(self, xs, w)", ""),
    "ModuleNotFoundError": ("import beside", "import nowhere", ""),
    "AttributeError": ("import beside", "np.missing", ""),
    "a shift must be a Shift": ("import beside", 'register_shift("mine", 3)', ""),
    "SystemExit": ('@register_baseline("slip")', "exit()", ""),
    "mutable default": (FIELD, "    level: list = []", "@dataclass(frozen=True)"),
    "non-frozen": ("@dataclass(frozen=True)", "@dataclass", ""),
    "a name is missing": ('@register_task("slip")', "@register_task", ""),
    # registered
    "needs @dataclass(frozen=True)": ("@dataclass(frozen=True)\n", "", TASK),
    "must be a subclass of Task": (TASK, "class Slip:", ""),
    "must define outputs": (OUTPUTS, "    def output(self, xs, w):", TASK),
    "outputs must take (self, xs, parameters)": (OUTPUTS, "    def outputs(self, xs):", ""),
    "divisor needs @property": ("    @property\n", "", PROPERTY),
    "noise hides the method": (FIELD, "    noise: float = 0.1", ""),
    "loss must be one of squared_error": (FIELD, '    loss = "huber"', ""),
    "classes must be 2 with": (FIELD, '    loss = "cross_entropy"', TASK),
    "classes must have another name": (FIELD, "    classes: int = 3", ""),
    "points must have another name": (FIELD, "    points: int = 3", ""),
    "level needs a default": (FIELD, "    level: list = field(default_factory=list)", ""),
    "task=linear is the project's own": ('task("slip")', 'task("linear")', TASK),
    "evaluation.baselines=lasso is": ('baseline("slip")', 'baseline("lasso")', SOLVER),
    "model.injection=concat is": ('loop("slip")', 'loop("concat")', LOOP),
    "slip is that of": (ANSWER, f'{ANSWER}\n@register_baseline("slip")\n{OTHER}', OTHER),
    "must be a subclass of Loop": (LOOP, "class Gate:", ""),
    "step must take (self, state, e, t, context)": (STEP, "    def step(self, state, e):", ""),
    # a task
    "plain number above 0, got '2'": (DIVISOR, "str(self.dims)", PROPERTY),
    "NameError: name 'dim' is not": (DIVISOR, "float(dim)", "        return float(dim)"),
    "ValueError: far away": (VALUES, "beside.fails()", "        return beside.fails()"),
    "SystemExit: 0": (VALUES, "exit(0)", "        return exit(0)"),
    "IndexError": (VALUES, "xs @ w.T[5]", "        return xs @ w.T[5]"),
    "one for each prompt": (DRAW, "torch.ones(2, 1)", PARAMETERS),
    "other prompts for the same seed": (DRAW, "torch.randn(len(random.normal(1)), 2)", PARAMETERS),
    "and not [64, 4, 1], torch.float32": (".squeeze(2)", "", OUTPUTS),
    "and not [64, 4], torch.float64": (".squeeze(2)", ".squeeze(2).double()", OUTPUTS),
    "and not NoneType": (VALUES, "None", OUTPUTS),
    "outputs gives values that are not finite": (".squeeze(2)", ".squeeze(2).log()", OUTPUTS),
    "outputs changes xs in place": ("xs @ w", "xs.abs_() @ w", OUTPUTS),
    "noise gives values": (FIELD, "    def noise(self, *a): return a[0] / 0", ""),
    "baselines cannot hold mean": (FIELD, '    baselines = ("mean",)', ""),
    # a baseline
    "predictions [B, n] = [16, 4], and not [16]": (ANSWER, "    return ys.mean(1)", SOLVER),
    "takes 2 positional arguments but 3": (SOLVER, "def last(xs, ys):", ""),
    "matmul": (ANSWER, "    return ys @ ys", ""),
    "not finite, first from 0 pairs": (ANSWER, "    return ys / (0 * ys)", SOLVER),
    "reads the answer": (ANSWER, "    return ys.cumsum(1)", SOLVER),
    "its random numbers need a seed": (ANSWER, "    return np.random.rand(*ys.shape)", SOLVER),
    "its inputs in place": (ANSWER, "    ys += 1; return 0 * ys", SOLVER),
    # a loop
    "Gate.__init__ fails with TypeError": (INIT, "    def __init__(self, spec, width):", ""),
    "must set gate": ("self.gate.fill_(2.0)", "pass", "    def initialise(self):"),
    "[2, 8, 8], and not NoneType": ("return super().step", "super().step", STEP),
    "a LoopState of [B, S, n_embd]": (STEP, f"{START}\n{STEP}", START),
    "step gives values that are not finite": ("gate.fill_(2.0)", "gate.fill_(1e38)", STEP),
    "Expected size for first two": (STEP, f"{STEP}\n        e @ e", "        e @ e"),
}  # fmt: skip


@pytest.fixture
def written(tmp_path: Path) -> Callable[[str], Path]:
    """Writes a file of the user's, beside another one."""
    (tmp_path / "beside.py").write_text("def fails():\n    raise ValueError('far away')\n")
    file = tmp_path / f"é{tmp_path.name}.py"  # a name is loaded once in a process
    return lambda code: (file.write_text(code, "utf-8"), file)[1]


@pytest.mark.parametrize("said", SLIPS)
def test_a_slip_is_one_line_with_its_place(
    said: str, written: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    before, after, named = SLIPS[said]
    assert CODE.count(before) == 1
    code = CODE.replace(before, after)
    file, runs = written(code), written(code).parent / "runs"
    words = WORDS if "baselines cannot" not in said else [w for w in WORDS if "baselines" not in w]
    assert main([f"plugins={file}", f"folder={runs}", *words]) == 2
    err = capsys.readouterr().err
    line = code.splitlines().index(named or after.splitlines()[-1]) + 1
    in_line = f"{file}, line {line}"
    assert (f"{file.with_name('beside.py')}, line 2" if "far away" in said else in_line) in err
    assert said in err
    assert err.count("\n") == 1
    assert not [*runs.glob("*/*")]


def test_a_divisor_that_is_no_variance_is_said(
    written: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """When training begins, and beside the numbers, also when they are shown again."""
    file = written(CODE.replace(DIVISOR, "2.0 * self.dims"))
    remark = f"errors are over 4, the divisor of task=slip ({file}, line 14), but the variance"
    for times in (2, 1):
        assert main([f"plugins={file}", f"folder={file.parent}", *WORDS]) == 0
        assert capsys.readouterr().out.count(remark) == times
