"""plugins= and optional packages: what a file adds, and what is said of one that cannot be used."""

from pathlib import Path

import pytest

from looplab.conf.lazy import optional
from looplab.conf.mistakes import ConfigError
from tests.conftest import HOME, printed
from tests.training.tiny import WORDS

MISTAKES = {
    "plugins=missing.py": "plugins names missing.py, which does not exist",
    "plugins=words.txt": "plugins names words.txt, which is no Python file",
    "plugins=[own.py,there/own.py]": "plugins names two files own.py: rename one",
    "task.hight=2": "task.hight is not a setting; did you mean 'task.height'?",
    "task.levels=high": "task.levels must be a whole number, got 'high'",
    "evaluation.shifts=[scaled_x_8]": "evaluation.shifts cannot be 'scaled_x_8'; did you mean",
}
FILES = {
    "words.txt": "",
    "own.py": (
        "from dataclasses import dataclass\n"
        "from looplab.tasks.linear import Linear\n"
        "from looplab import register_shift, register_task\n"
        "from looplab.tasks.shift import ScaledInputs\n"
        'register_shift("scaled_x_7", ScaledInputs("x · 7", 7))\n'
        '@register_task("own")\n@dataclass(frozen=True)\n'
        "class Own(Linear):\n    height: float = 1.5\n    levels: tuple[int, ...] = (1, 2)\n"
    ),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("plugins")
    for name, text in FILES.items():
        (made / name).parent.mkdir(exist_ok=True)
        (made / name).write_text(text, encoding="utf-8")
    return made


def python(code: str, folder: Path) -> str:
    """What a new process prints: plugins stay in the one that imports them."""
    return printed("-c", f"import sys; sys.path.insert(0, {str(HOME)!r})\n{code}", cwd=folder)


def test_settings_and_names_of_a_file(folder: Path) -> None:
    """Checked like the project's own, and kept with the absolute path; a mistake is one line."""
    words = ["plugins=own.py", "task=own", "task.height=2", "evaluation.shifts=[scaled_x_7]"]
    words += ["task.levels=3,4"]
    code = (
        "from looplab.conf.compose import commands\n"
        "from looplab.conf.mistakes import ConfigError\n"
        f"config = commands({words})[0].config\n"
        "print(config.plugins[0], config.task.settings, config.evaluation.shifts)\n"
        f"for word in {list(MISTAKES)}:\n"
        f"    own = [] if word.startswith('plugins') else {words[:2]}\n"
        "    try: commands([*own, word])\n"
        "    except ConfigError as error: print(error)\n"
    )
    kept, *said = python(code, folder).splitlines()
    assert kept == f"{folder / 'own.py'} {{'height': 2.0, 'levels': (3, 4)}} ('scaled_x_7',)"
    for line, expected in zip(said, MISTAKES.values(), strict=True):
        assert line.startswith(expected)


@pytest.mark.parametrize(
    "name",
    [
        "torch",
        "my-own.v2",
        *(pytest.param(n, marks=pytest.mark.slow) for n in ("json", "statistics", "numpy")),
    ],
)
def test_a_file_may_be_called_as_it_likes(name: str, folder: Path, tmp_path: Path) -> None:
    """It has a module name of its own, other modules keep theirs, and so does the run: its name
    depends on the file's."""
    (tmp_path / f"{name}.py").write_text(FILES["own.py"], encoding="utf-8")
    words = [f"plugins={tmp_path / name}.py", "task=own"]
    code = (
        "import sys\n"
        "from looplab.conf.compose import commands\n"
        f"config = commands({words})[0].config\n"
        "import json, statistics, numpy, torch\n"
        f"assert {str(tmp_path)!r} not in str([json, statistics, numpy, torch])\n"
        "from looplab.tasks import task_class\n"
        "from looplab.training.run_folder.sources import sources_of\n"
        "print(*sources_of(things=[task_class('own')]))\n"
    )
    assert python(code, folder).split() == [f"{name}.py"]


@pytest.mark.slow
def test_a_grid_over_plugins_trains_in_processes(folder: Path, tmp_path: Path) -> None:
    """Each process imports the file again."""
    grid = ["-m", f"plugins={folder / 'own.py'}", "task=own", "seed=0,1", "jobs=2", "device=cpu"]
    printed(HOME / "run.py", *grid, *WORDS, cwd=tmp_path)
    assert len(list((tmp_path / "runs").glob("own-*/evaluation.json"))) == 2


@pytest.mark.parametrize(
    ("file", "content", "problem"),
    [
        ("", "", r"needs some_pack, .* .No module named 'some_pack'.; pip install some_pack==1"),
        ("some_pack/log.txt", "", "cannot be loaded .module 'some_pack' has no attribute 'init'"),
        ("some_pack.py", "1 / 0", "cannot be loaded .division by zero"),
    ],
)
def test_what_is_said(
    file: str, content: str, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    if file:
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text(content)
    monkeypatch.delitem(__import__("sys").modules, "some_pack", raising=False)
    with pytest.raises(ConfigError, match=problem) as mistake:
        optional("wandb", "some_pack", "init", "some_pack==1")
    assert mistake.value.key == "wandb"
    assert "\n" not in str(mistake.value)
