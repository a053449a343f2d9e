"""The snippets of the README, the guides, docs/tour.md and the notebooks, run as they stand."""

import io
import json
import linecache
import re
import shlex
from contextlib import redirect_stdout
from importlib.util import find_spec
from pathlib import Path

import pytest

from looplab.conf.compose import commands
from looplab.evaluation.load import load_run
from looplab.experiments.definition import load
from looplab.probing.probe import probe
from looplab.probing.settings import ProbingSettings
from looplab.probing.targets import TARGETS
from looplab.training import Run
from tests.conftest import HOME, printed, python

TEXTS = [HOME / "README.md", *sorted((HOME / "docs").rglob("*.md"))]
GUIDE = "\n".join(path.read_text("utf-8") for path in TEXTS if path.parent.name == "guide")
CLUSTERS = (HOME / "docs" / "clusters.md").read_text("utf-8")


def blocks(language: str, text: str = GUIDE) -> list[str]:
    """The code blocks of a text in a language."""
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


SMALL = (
    "model.n_embd=16 model.n_head=2 loops.b=3 loops.T=2 training.steps=20 "
    "training.batch_size=8 training.log_every=10 curriculum.dims.start=1 "
    "curriculum.dims.intervals=[5] curriculum.loops.start=2 evaluation.prompts=40 "
    "evaluation.resamples=20 device=cpu"
)


def plugin(folder: Path, name: str) -> tuple[str, str]:
    """Write the file of the guide that registers `name`; its code, and the guide's command."""
    (code,) = [block for block in blocks("python") if f'("{name}"' in block]
    (command,) = re.findall(rf"^python (run\.py plugins=\w+\.py .*{name}.*)$", GUIDE, flags=re.M)
    (file,) = re.findall(r"plugins=(\w+\.py)", command)
    (folder / file).write_text(code, encoding="utf-8")
    return code, command.replace("'", "")


def shell(command: str, cwd: Path) -> str:
    """What a command of the project prints."""
    return printed(*command.replace("run.py", str(HOME / "run.py"), 1).split(), cwd=cwd)


@pytest.mark.slow
def test_a_task_and_a_baseline_from_outside(tmp_path: Path) -> None:
    """Trained, evaluated again from another folder, probed, and found where the file has moved."""
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    code, command = plugin(here, "sinusoid")
    more = "task.distinct_prompts=1000 evaluation.shifts=[scaled_x_2]"
    said = shell(f"{command} {SMALL} {more}", here)
    assert "step 20/20" in said
    assert "mean of the outputs so far" in said
    assert "3-nearest neighbours" in said
    (run,) = (path for path in (here / "runs").iterdir())
    again = f"run.py action=evaluate run={run} device=cpu"
    assert "mean of the outputs so far" in shell(f"{again} evaluation.prompts=50", there)
    (here / "waves.py").rename(there / "waves.py")
    done = python(HOME / "run.py", *f"{again} evaluation.prompts=60".split()[1:], cwd=there)
    assert "mean of the outputs" in done.stdout
    assert done.stderr.startswith(f"plugins: {here / 'waves.py'} is not there, ")
    done = python(HOME / "run.py", *f"{again} plugins=waves.py".split()[1:], cwd=there)
    assert (done.returncode, done.stderr) == (0, "")
    lines = [line for line in code.splitlines() if line.strip()]
    assert len(lines) <= 23  # 'about ten lines', and five for the baseline, beside the imports


@pytest.mark.slow
def test_a_loop_from_outside(tmp_path: Path) -> None:
    code, command = plugin(tmp_path, "gated")
    small = f"{SMALL} task.dims=3 task.points=7"
    assert "step 20/20" in shell(f"{command} {small}", tmp_path)
    (gated,) = (tmp_path / "runs").iterdir()
    (tmp_path / "gated.py").write_text(code.replace("2.0", "3.0"), encoding="utf-8")
    shell(f"{command} {small}", tmp_path)
    (edited,) = set((tmp_path / "runs").iterdir()) - {gated}  # an edited loop is another run
    losses = [(run / "metrics.jsonl").read_text().splitlines()[-1] for run in (gated, edited)]
    assert json.loads(losses[0])["loss"] != json.loads(losses[1])["loss"]
    assert len(code.splitlines()) < 30


@pytest.mark.slow
def test_data_of_ones_own_and_a_shift_from_outside(tmp_path: Path) -> None:
    _, command = plugin(tmp_path, "rows")
    assert "step 20/20" in shell(f"{command} {SMALL}", tmp_path)
    _, command = plugin(tmp_path, "zeros")
    few = "evaluation.prompts=40 evaluation.resamples=20 device=cpu"
    assert "half of the inputs are zero" in shell(f"{command} {few}", tmp_path)


def test_the_reference_is_that_of_the_schema() -> None:
    """Where it is not: python -m looplab.reference > docs/reference.md"""
    # In a process of its own: tests register tasks in this one.
    text = printed("-m", "looplab.reference")
    assert (HOME / "docs" / "reference.md").read_text(encoding="utf-8") == text


def test_each_result_of_the_readme_is_one_number_of_the_results() -> None:
    """Those are read from kept files: tests/golden/claims_page.py."""
    text = TEXTS[0].read_text(encoding="utf-8")
    page = (HOME / "docs" / "results.md").read_text(encoding="utf-8")
    made = re.findall(
        r"<!-- (?:value|table|claim): [^>]* -->(.*?)<!-- to here -->", page, re.DOTALL
    )
    known = set(re.findall(r"[\d.]+", " ".join(made)))
    results = re.findall(r"^\d\. (.*?)\(\[how\]", text, flags=re.DOTALL | re.MULTILINE)
    assert len(results) == 5
    for result in results:
        (number,) = re.findall(r"\.?\d[\d.]*", result)
        assert number in known, result


def test_the_readme_trains_from_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```python\n(.*?)```", TEXTS[0].read_text("utf-8"), flags=re.DOTALL)
    small = (
        *("task.dims=3", "task.points=7", "model.n_embd=16", "model.n_head=2", "loops.b=3"),
        *("loops.T=2", "curriculum.dims.start=2", "curriculum.loops.start=2", "training.steps=5"),
        *("training.batch_size=8", "evaluation.loops=4", "evaluation.prompts=20", "device=cpu"),
    )
    exec(code.replace('"seed=1"', f'"seed=1", *{small}'), {})
    (run,) = (tmp_path / "runs").iterdir()
    assert (run / "evaluation.json").exists()


def test_the_python_example_runs_on_a_run_folder(tiny_run: Run) -> None:
    (code,) = [block for block in blocks("python") if "predictions = " in block]
    # The points first: the folder's name may hold the same digits.
    code = code.replace("11", "7").replace("runs/NAME", str(tiny_run.path))
    names: dict[str, object] = {}
    exec(code, names)
    assert list(names["predictions"].shape) == [30, 1, 7]  # type: ignore[attr-defined]


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.stem)
def test_every_file_that_a_text_links_to_is_there(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", path.read_text(encoding="utf-8")):
        if not target.startswith("http"):
            assert (path.parent / target).exists(), target


def test_every_command_of_the_papers_pages_exists() -> None:
    """Settings compose, experiments and modules are there."""
    found = 0
    text = "".join(path.read_text("utf-8") for path in TEXTS if path.parent.name == "papers")
    for code in re.findall(r"`([^`]+)`", text):
        match shlex.split(code):
            case ["python", "-m", module, *_]:
                assert find_spec(f"looplab.{module}"), code
            case ["python", "run.py", *words] | words if all("=" in word for word in words):
                given = dict(word.split("=", 1) for word in words)
                if "experiment" in given:
                    load(given["experiment"])
                elif not given.keys() & {"action", "table", "scale"}:
                    commands(["task=linear", *words] if "task" not in given else words)
            case _:
                continue
        found += 1
    assert found > 60


def test_the_target_of_the_guide_is_probed(tiny_run: Run) -> None:
    (code,) = [block for block in blocks("python") if '@register_target("total")' in block]
    settings = ProbingSettings(targets=("total",), steps=3, prompts=20, batch_size=8, resamples=5)
    known = dict(TARGETS)
    try:
        exec(code, {"__name__": "of_a_user"})
        probe(load_run(tiny_run.path), settings)
    finally:
        TARGETS.clear()
        TARGETS.update(known)
    found = json.loads((tiny_run.path / "probing.json").read_text())["targets"]["total"]
    assert (found["label"], found["lengths"][-1]) == ("sum of the outputs seen", 7)


def test_the_classifier_of_the_guide_reads_a_real_table() -> None:
    """In five lines, as they stand."""
    (code,) = [block for block in blocks("python") if "LoopedClassifier()" in block]
    assert len([line for line in code.splitlines() if line]) == 5
    names: dict[str, object] = {}
    exec(code, names)
    assert names["accuracy"] > 0.87  # type: ignore[operator]


def test_a_question_in_one_file(tmp_path: Path) -> None:
    """As it stands, of shorter trainings."""
    (code,) = [block for block in blocks("python") if "EXPERIMENT = {" in block]
    assert len(code.splitlines()) < 60
    # Few prompts: of a model that has seen all kinds and learned nothing, nothing is measured.
    short = (
        '"task": "linear", "training.steps": 20, "task.dims": 2, "task.points": 4, "loops.b": 3,'
        '"curriculum.dims.start": 2, "curriculum.loops.start": 3, "task.distinct_prompts": 8,'
    )
    code = code.replace('"task": "linear",', short)
    few = '"seeds": 2, "evaluation": {"prompts": 64, "resamples": 50},'
    (tmp_path / "wide.py").write_text(code.replace('"seeds": 2,', few), encoding="utf-8")
    said = shell("run.py experiment=wide.py jobs=1 device=cpu", tmp_path)
    assert "wide: What one more loop moves, by width" in said
    folder = tmp_path / "runs" / "experiments" / "wide-small"
    names = {path.stem for path in (folder / "figures").glob("*.png")}
    assert names == {"move", "by_loop-linear-d-2"}
    result = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    (verdict,) = result["verdicts"]
    assert verdict["claim"] == "wider_models_rest"
    shell("run.py action=report", tmp_path)
    page = (tmp_path / "report" / "index.html").read_text(encoding="utf-8")
    assert "What one more loop moves, by width" in page


def test_a_question_in_the_form_of_before_goes_on_with_a_line(tmp_path: Path) -> None:
    """Its measure returns panels, from a module that has moved."""
    (tmp_path / "old.py").write_text(_OLD_QUESTION, encoding="utf-8")
    said = shell("run.py experiment=old.py jobs=1 device=cpu", tmp_path)
    assert "looplab.evaluation.panel is looplab.show.panel now" in said
    assert "old: its measure returns panels; now measure(runs, settings) returns numbers" in said
    folder = tmp_path / "runs" / "experiments" / "old-small"
    assert (folder / "figures" / "steps.png").is_file()


_OLD_QUESTION = """
from looplab.evaluation.panel import Curve, Panel

EXPERIMENT = {
    "title": "Steps",
    "source": "a question of my own",
    "small": {
        "runs": [{
            "label": "a run", "task": "linear", "training.steps": 5, "task.dims": 2,
            "task.points": 4, "loops.b": 3, "curriculum.dims.start": 2,
            "curriculum.loops.start": 3, "task.distinct_prompts": 8,
        }],
        "evaluation": {"prompts": 16, "resamples": 10},
    },
}


def measure(runs, settings):
    steps = [run.step for run in runs]
    curve = Curve(label="steps", kind="looped", mean=steps, name="steps")
    return {"steps": steps, "panels": [Panel("steps", "Steps", "run", "steps", [1], [curve])]}
"""


@pytest.mark.slow
def test_a_search_for_settings(tmp_path: Path) -> None:
    """A second start goes on with the trials of the first."""
    pytest.importorskip("optuna")
    (code,) = [block for block in blocks("python", CLUSTERS) if "import optuna" in block]
    short = code.replace("training.steps=1000", "training.steps=20").replace("16)", "2)")
    (tmp_path / "search.py").write_text(short, encoding="utf-8")
    for trials in (2, 4):
        said = printed("search.py", cwd=tmp_path, PYTHONPATH=str(HOME))
        assert "'muon_rate'" in said.splitlines()[-1]
        assert len(list((tmp_path / "runs").glob("linear-*"))) == trials


NOTEBOOKS = [
    pytest.param(HOME / "docs" / "tour.md", id="tour", marks=pytest.mark.slow),
    *[pytest.param(path, id=path.stem) for path in TEXTS if path.parent.name == "notebooks"],
]
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def agrees(expected: str, line: str) -> bool:
    """Whether a line says the same, its numbers up to two units of the last digit."""
    if _NUMBER.sub("#", expected).split() != _NUMBER.sub("#", line).split():
        return False
    pairs = zip(_NUMBER.findall(expected), _NUMBER.findall(line), strict=True)
    return all(
        abs(float(said) - float(found)) <= 2.001 * 10.0 ** -len(said.partition(".")[2])
        if "." in said
        else said == found
        for said, found in pairs
    )


def printed_by(command: str, folder: Path) -> str:
    """What a command prints, of the project but run in `folder`."""
    first, *words = shlex.split(command)
    assert first == "python"
    words = [str(HOME / word) if word == "run.py" else word for word in words]
    return printed(*words, cwd=folder, PYTHONPATH=str(HOME))


@pytest.mark.parametrize("path", NOTEBOOKS)
def test_a_notebook_prints_what_it_says(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "of_a_notebook"}
    printed = ""
    text = path.read_text(encoding="utf-8")
    for language, block in re.findall(r"```(python|sh|text)\n(.*?)```", text, flags=re.DOTALL):
        if language == "python":
            cell = f"<cell {len(linecache.cache)}>"  # its source is known as a notebook's is
            linecache.cache[cell] = (len(block), None, block.splitlines(keepends=True), cell)
            with redirect_stdout(io.StringIO()) as out:
                exec(compile(block, cell, "exec"), names)
            printed = out.getvalue()
        elif language == "sh":
            printed = printed_by(block, tmp_path)
        else:
            lines = printed.splitlines()
            for expected in block.splitlines():
                assert any(agrees(expected, line) for line in lines), (expected, printed)
    if path.stem == "tour":
        (run,) = (tmp_path / "runs" / "shipped").iterdir()
        assert (run / "figures" / "error_by_examples.pdf").read_bytes().startswith(b"%PDF")
        assert (run / "probing" / "figures" / "least_squares_by_layer.png").exists()


def test_numbers_may_differ_by_their_last_digit_and_words_not_at_all() -> None:
    assert agrees("after 5 examples: 0.56", "after 5 examples: 0.58")
    assert not agrees("after 5 examples: 0.56", "after 5 examples: 0.59")
    assert not agrees("after 5 examples: 0.56", "after 6 examples: 0.56")
    assert not agrees("after 5 examples: 0.56", "with 5 examples: 0.56")
