"""Wrong commands, answered one after another in a process without torch. See wrong_commands.txt.

python -m tests.wrong_commands RUN BESIDE      # in an empty folder; prints what each gave, as JSON
"""

import importlib
import io
import json
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple

TABLE = Path(__file__).with_name("wrong_commands.txt")


class Wrong(NamedTuple):
    """A wrong command: of which entry point (as after `python -m`; `run` is run.py), its words,
    and what its one line must hold."""

    entry: str
    words: tuple[str, ...]
    expected: str

    @property
    def name(self) -> str:
        return " ".join((self.entry, *self.words))[:80]


def wrong_commands(run: Path, beside: Path) -> Iterator[Wrong]:
    """All of them, with the run folder RUN, and below `beside` EMPTY and FILE."""
    entry, more = "", list[str]()
    places = {"RUN": f"{run}", "EMPTY": f"{beside / 'empty'}", "FILE": f"{beside / 'file'}"}
    places["BIG"] = "1" + 400 * "0"
    for line in TABLE.read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            entry, *more = line.strip("[]").split()
        elif line and not line.startswith("#"):
            words, _, expected = line.rpartition("=> ")
            for name, path in places.items():
                words = words.replace(name, path)
            yield Wrong(entry, (*more, *words.split()), expected)


def answer(wrong: Wrong) -> dict[str, object]:
    """Exit code, output and errors of a command in this process."""
    module = "main" if wrong.entry == "run" else f"{wrong.entry}.__main__"
    main = importlib.import_module(f"looplab.{module}").main
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            code = main(list(wrong.words))
        except BaseException as error:
            code = f"{type(error).__name__}: {error}"[:300]
    return {"code": code, "out": out.getvalue(), "err": err.getvalue()}


def answer_all(run: Path, beside: Path) -> list[dict[str, object]]:
    """Of all commands, with what each left in the current folder."""
    answers = []
    for wrong in wrong_commands(run, beside):
        found = answer(wrong)
        left = [str(path) for path in Path().iterdir()]
        answers.append(found | {"left": left})
        if left:
            break
    return answers


class _NoTorch:
    """Ends a command that asks for torch."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name == "torch":
            raise ImportError("torch is not needed to see this mistake")


if __name__ == "__main__":
    sys.meta_path.insert(0, _NoTorch())
    print(json.dumps(answer_all(Path(sys.argv[1]), Path(sys.argv[2]))))
