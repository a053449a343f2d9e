"""Two processes that start the same training within microseconds, over and over:
`python -m tests.training.stopping.starters FOLDER PAIRS` prints a line of JSON a pair."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any


def _outcome(folder: Path, start: int) -> dict[str, Any]:
    """What this process gets when it starts training below a folder."""
    from looplab.conf.mistakes import HeldElsewhere
    from looplab.training import train
    from tests.training.tiny import tiny

    os.read(start, 1)
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    try:
        run = train(tiny(folder, steps=100))
    except HeldElsewhere as error:
        return {"held": str(error)}
    except BaseException as error:
        return {"failed": f"{type(error).__name__}: {error}"}
    return {"trained": run.step}


def _pair(folder: Path) -> list[dict[str, Any]]:
    """The outcomes of two children, which a pipe lets go at once."""
    ready, go = os.pipe()
    children = []
    for _ in range(2):
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            outcome = _outcome(folder, ready) | {"pid": os.getpid()}
            os.write(write, json.dumps(outcome).encode())
            os._exit(0)
        os.close(write)
        children.append((pid, read))
    os.write(go, b"..")
    outcomes = []
    for pid, read in children:
        with open(read, "rb") as file:
            outcomes.append(json.loads(file.read()))
        os.waitpid(pid, 0)
    os.close(ready)
    os.close(go)
    return outcomes


def _main(folder: Path, pairs: int) -> None:
    import torch

    import looplab.training.loop  # noqa: F401  what takes long to import, before the first fork

    torch.optim.AdamW([torch.nn.Parameter(torch.zeros(1))])
    for pair in range(pairs):
        print(json.dumps(_pair(folder / str(pair))), flush=True)


if __name__ == "__main__":
    _main(Path(sys.argv[1]), int(sys.argv[2]))
