"""A run and the files of its user: its name, its copies of them, and what is said of edits."""

import sys
from pathlib import Path

import pytest

from looplab.conf.mistakes import ConfigError
from looplab.conf.schema import Config
from looplab.evaluation.load import load_run
from looplab.evaluation.runs_table import rows_of
from looplab.main import main
from looplab.training import train
from looplab.training.assemble import build_task
from looplab.training.run_folder.run import run_folder
from tests.training import tiny

WORDS = [*tiny.WORDS, "task=kept", "evaluation.baselines=[kept]"]
HELPER = "half = 0.5\n"
CODE = """
from dataclasses import dataclass
from looplab import Task, register_baseline, register_task
from kept_helper import half

@register_task("kept")
@dataclass(frozen=True)
class Kept(Task):
    @property
    def divisor(self): return float(self.dims)
    def parameters(self, random, dims): return random.normal(self.dims)
    def outputs(self, xs, w): return (xs @ w[:, :, None]).squeeze(2)
    def summary(self, errors, ys): return {"error": called(float(errors.mean()))}

def nothing(ys):
    return 0 * ys

@register_baseline("kept")
def kept(xs, ys, queries):
    return nothing(ys)

@register_baseline("called")
def called(*numbers):
    return numbers[0]
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "kept.py"
    made.write_text(CODE, "utf-8")
    (tmp_path / "kept_helper.py").write_text(HELPER, "utf-8")
    return made


@pytest.fixture
def words(file: Path) -> list[str]:
    """Of a run of this file."""
    return [f"plugins={file}", f"folder={file.parent / 'runs'}", *WORDS]


def forget() -> None:
    """As in a new process."""
    for name in ("plugin:kept", "kept_helper"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize(
    ("before", "after", "is_other"),
    [
        ("return nothing(ys)", "return (\n        1 + nothing(ys)\n    )\n", False),
        ("float(self.dims)", "1.0 * self.dims", True),
        ("return 0 * ys", "return 1 + 0 * ys", True),
        ("return numbers[0]", "return 2 * numbers[0]", True),  # the task calls it
        ("half = 0.5", "half = 0.25", True),  # in a file that it imports
    ],
)
def test_only_what_bears_on_training_is_in_the_name(
    before: str, after: str, is_other: bool, file: Path
) -> None:
    names = []
    beside = file.with_name("kept_helper.py")
    for code, helper in ((CODE, HELPER), (each.replace(before, after) for each in (CODE, HELPER))):
        forget()
        file.write_text(code, "utf-8")
        beside.write_text(helper, "utf-8")
        names.append(run_folder(Config.of(f"plugins={file}", *WORDS)).path.name)
    assert (names[0] != names[1]) == is_other


def test_an_edited_baseline_is_evaluated_alone(
    file: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """An edited task is another run, and marks those of before until the edit is taken back."""
    assert main(words) == 0
    forget()
    file.write_text(CODE.replace("return nothing(ys)", "return 1 + nothing(ys)"), "utf-8")
    before = capsys.readouterr().out.splitlines()
    assert main(words) == 0
    after = capsys.readouterr().out.splitlines()
    assert "trained already" in after[0]
    (first, second) = (next(x for x in lines if x.startswith("kept")) for lines in (before, after))
    assert first != second
    (run,) = (file.parent / "runs").iterdir()
    forget()
    file.write_text(CODE.replace("float(self.dims)", "1.0 * self.dims"), "utf-8")
    assert main(["action=evaluate", f"run={run}"]) == 0
    assert "kept.py differs now" in capsys.readouterr().out
    assert "kept.py differs now" in rows_of([run])[0].remarks
    file.write_text(CODE, "utf-8")
    assert "differs" not in rows_of([run])[0].remarks


def test_a_run_goes_on_with_its_copies(
    file: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 0
    (run,) = (file.parent / "runs").iterdir()
    forget()
    copy, moved = run / "plugins" / "kept.py", file.parent / "new" / "kept.py"
    moved.parent.mkdir()
    file.rename(moved)
    file.with_name("kept_helper.py").rename(moved.with_name("kept_helper.py"))
    capsys.readouterr()
    assert load_run(run).config.plugins == (str(copy),)
    said = capsys.readouterr().err
    assert said == f"plugins: {file} is not there, {copy} is used; plugins=NEW where it has moved\n"
    forget()
    sys.path.remove(str(copy.parent))
    assert main(["action=evaluate", f"run={run}", f"plugins={moved}"]) == 0
    out, err = capsys.readouterr()
    assert (err, "differs" in out) == ("", False)
    forget()
    copy.unlink()
    with pytest.raises(ConfigError, match="does not exist"):
        load_run(run)


def test_an_edit_that_fails_leaves_what_was_loaded(file: Path, words: list[str]) -> None:
    """Whatever the file has registered before it fails."""
    config = Config.of(*words)
    edited = CODE.replace("float(self.dims)", "100.0 * self.dims")
    file.write_text(f"{edited}\nraise RuntimeError\n", "utf-8")
    with pytest.raises(ConfigError, match="which fails: RuntimeError"):
        Config.of(*words)
    assert build_task(config).divisor == 2.0
    file.write_text(edited, "utf-8")
    assert build_task(Config.of(*words)).divisor == 200.0


def test_an_edit_while_it_is_loaded(
    file: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """A configuration of before is of the code that was loaded, a new one of the edited code; in a
    file that it imports, too."""
    config = Config.of(*words)
    first = train(config)
    file.with_name("kept_helper.py").write_text("half = 0.25\n", "utf-8")
    file.write_text(CODE.replace("float(self.dims)", "half * self.dims"), "utf-8")
    capsys.readouterr()
    assert train(config).path == first.path
    assert "used as it was loaded, but edited since: kept.py" in capsys.readouterr().out
    second = train(Config.of(*words))
    assert "kept.py is loaded again" in capsys.readouterr().out
    assert second.path != first.path
    assert (first.task.divisor, second.task.divisor) == (2.0, 0.5)
    assert (second.path / "plugins" / "kept_helper.py").read_text("utf-8") == "half = 0.25\n"


def test_a_plugin_of_the_same_name_takes_the_place_of_another(
    file: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """With the files beside it, which have the same names; one of the same code does not."""
    first = train(Config.of(*words))
    same, other = file.parent / "same" / "kept.py", file.parent / "other" / "kept.py"
    for copy in (same, other):
        copy.parent.mkdir()
        copy.write_text(file.read_text("utf-8"), "utf-8")
        helper = file.with_name("kept_helper.py").read_text("utf-8")
        copy.with_name("kept_helper.py").write_text(helper, "utf-8")
    other.with_name("kept_helper.py").write_text("half = 0.125\n", "utf-8")
    other.write_text(CODE.replace("float(self.dims)", "half * self.dims"), "utf-8")
    capsys.readouterr()
    assert train(Config.of(f"plugins={same}", *words[1:])).path == first.path
    assert "takes the place" not in capsys.readouterr().out
    second = train(Config.of(f"plugins={other}", *words[1:]))
    assert f"plugins: {other} takes the place of {file}" in capsys.readouterr().out
    assert second.path != first.path
    assert second.task.divisor == 0.125 * second.config.task.dims


def test_what_registers_may_stand_beside_a_plugin(file: Path, words: list[str]) -> None:
    """Its edits are seen, and one that cannot be loaded leaves what was loaded."""
    helper = file.with_name("kept_helper.py")
    helper.write_text(CODE.replace("from kept_helper", "from math").replace("half", "pi"), "utf-8")
    file.write_text("import kept_helper\n", "utf-8")
    config = Config.of(*words)
    first = run_folder(config).path
    code = helper.read_text("utf-8")
    helper.write_text(f"{code}\ndef unfinished(:\n", "utf-8")
    with pytest.raises(ConfigError, match="kept_helper"):
        Config.of(*words)
    assert run_folder(config).path == first
    helper.write_text(code.replace("float(self.dims)", "2.0 * self.dims"), "utf-8")
    assert run_folder(config).path == first
    assert run_folder(Config.of(*words)).path != first
