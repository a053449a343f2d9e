"""How long PyTorch's idle threads wait for work: briefly. No torch here.

GNU's libgomp lets them spin for about a millisecond. On cores that other processes use too, that
makes a small model's step many times slower. Without any spinning a step is half as fast as with
brief spinning. libgomp reads these variables when torch loads it.
"""

import os
import sys

_IS_UNSET = not {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"} & os.environ.keys()
# Says whether torch was loaded before looplab, and waits as long as libgomp's default says.
SET_TOO_LATE = _IS_UNSET and "torch" in sys.modules


def spin_briefly() -> None:
    """Set GOMP_SPINCOUNT for this process and its children, unless the user said how to wait."""
    if _IS_UNSET:
        os.environ["GOMP_SPINCOUNT"] = "1000"
