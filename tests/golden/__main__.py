"""The golden runs' numbers, and their bits beside those of the frozen commit.

python -m tests.golden                  # prints the numbers of today's code as JSON
python -m tests.golden freeze           # writes them into runs.json: only with a line in the log
python -m tests.golden against=frozen   # or a commit: 30 steps by both codes, their bits compared
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

HERE = Path(__file__).parent
STORED, FROZEN = HERE / "runs.json", HERE / "frozen_commit.txt"
_ALONE = {"OMP_NUM_THREADS": "1"}  # sums are taken in one order


def main(words: list[str]) -> int:
    """Carry out the command; the exit code."""
    word = words[0] if words else ""
    if word.startswith("against="):
        return _compare(word.removeprefix("against="))
    with TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, HERE / "configurations.py", HERE.parents[1], folder, "numbers"],
            env=os.environ | _ALONE, capture_output=True, text=True, check=False,
        )  # fmt: skip
    if done.returncode:
        print(done.stderr, file=sys.stderr)
    elif word == "freeze":
        STORED.write_text(done.stdout, encoding="utf-8")
    else:
        print(done.stdout)
    return done.returncode


def _compare(commit: str) -> int:
    """Print which runs end with the same bits by a commit's code and by today's; 1 if any does not.
    Both train with the words and by the script of today."""
    commit = FROZEN.read_text(encoding="utf-8").strip() if commit == "frozen" else commit
    home = HERE.parents[1]
    with TemporaryDirectory() as folder:
        tree = Path(folder, "code")
        subprocess.run(["git", "-C", home, "worktree", "add", "-q", tree, commit], check=True)
        try:
            answers = [
                subprocess.run(
                    [sys.executable, HERE / "configurations.py", root, Path(folder, name), "bits"],
                    env=os.environ | _ALONE, capture_output=True, text=True, check=True,
                ).stdout
                for name, root in (("then", tree), ("now", home))
            ]  # fmt: skip
        finally:
            subprocess.run(["git", "-C", home, "worktree", "remove", "--force", tree], check=True)
    then, now = map(json.loads, answers)
    known = {name: bits == then[name] for name, bits in now.items() if then[name]}
    for name, same in known.items():
        print(f"{name}: {'the same bits' if same else 'OTHER BITS'}")
    return int(not all(known.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
