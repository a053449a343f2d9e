"""python train.py ROOT FOLDER numbers|bits: the golden runs by the code in ROOT, in a process of
their own; prints their numbers, or the sha256 of the weights after 30 steps, as JSON."""

from __future__ import annotations

import hashlib
import json
import sys
from contextlib import redirect_stdout
from pathlib import Path

root, folder, what = sys.argv[1:]
sys.path.insert(0, root)

import torch  # noqa: E402
from configurations import (  # type: ignore[import-not-found]  # noqa: E402
    GOLDEN,
    config_of,
    numbers,
    of_code,
)

torch.set_num_threads(1)


def bits(name: str) -> str:
    """The sha256 of the weights after 30 steps; "" where this code does not have its settings."""
    try:
        config = config_of(name, Path(folder), steps=30)
    except ValueError:
        return ""
    run = of_code("training", "train")(config)
    parts = (weights.numpy().tobytes() for _, weights in sorted(run.model.state_dict().items()))
    return hashlib.sha256(b"".join(parts)).hexdigest()


with redirect_stdout(sys.stderr):
    found = {
        name: numbers(name, Path(folder)) if what == "numbers" else bits(name) for name in GOLDEN
    }
print(json.dumps(found, indent=1))
