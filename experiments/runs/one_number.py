"""The one number that stands for an evaluation, in a list of runs and when a run is done. No torch
and no NumPy here, since a thousand evaluations are to be listed within a second."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def one_number(evaluation: Mapping[str, Any]) -> Any:
    """The content of evaluation.json gives the error of the last query after b loops, over the
    task's divisor; of a language model the bits per byte of its held-out text after b loops.

    None where that is not finite. Raises KeyError, IndexError or TypeError for a content of another
    form.
    """
    if "language" in evaluation:
        held_out = evaluation["language"]["texts"]["held_out"]
        return held_out["bits_per_byte"]["mean"][evaluation["b"] - 1]
    return evaluation["by_examples"]["model_at_b"]["mean"][-1]
