"""How a model's state moves from loop to loop, on any run folder with a checkpoint:

    python -m probing.dynamics run=runs/NAME [loops=200] [prompts=64] [seed=2024] [device=auto]

Norms, changes, angles between increments, fixed-point residual, local contraction, effective rank.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from conf.checks import ConfigError
from conf.words import settings_from_words

from .dynamics_settings import DynamicsSettings, resolved


def main(words: list[str]) -> int:
    """Do what the words ask for; the exit code."""
    if {"-h", "--help"} & set(words):
        print(__doc__, end="")
        return 0
    try:
        settings = settings_from_words(DynamicsSettings, words)
        resolved(settings)
        return _measure(settings)
    except ConfigError as error:
        print(f"probing.dynamics: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nstopped", flush=True)
        return 130


def _measure(settings: DynamicsSettings) -> int:
    """Measure and show."""
    # As for run.py: threads that wait spin only briefly.
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")
    # Imported here, so that most mistakes are answered without waiting for torch.
    from probing.dynamics_run import dynamics
    from training import RunError

    try:
        result = dynamics(settings)
    except (RunError, OSError) as error:
        print(f"probing.dynamics: {error}", file=sys.stderr)
        return 1
    print(f"{report(result)}\n\n{Path(settings.run) / 'probing'}: dynamics.json, figures")
    return 0


def report(result: Mapping[str, Any]) -> str:
    """The means at a handful of loops, and what one more loop would do at the last."""
    b, unit = result["b"], "layer" if result["family"] == "standard" else "loop"
    loops = _handful(b, result["loops"])
    rows = [[unit, *map(str, loops)]]
    for part, name, label in (
        ("norm", "raw", "norm, before the final norm"),
        ("norm", "stream", "norm, of the state"),
        ("change", "absolute", "change"),
        ("change", "relative", "change / norm"),
        ("residual", None, "fixed-point residual"),
        ("effective_rank", None, "effective rank"),
    ):
        if part in result and not (name == "raw" and unit == "layer"):
            values = result[part][name] if name else result[part]
            rows.append([label, *_at(loops, result[part]["loop"], values)])
    width = max(len(row[0]) for row in rows)
    lines = [row[0].ljust(width) + "".join(f"{cell:>10}" for cell in row[1:]) for row in rows]
    return "\n".join([*lines, "", *_sentences(result, unit)])


def _sentences(result: Mapping[str, Any], unit: str) -> list[str]:
    """The angles, and the local contraction with what is left of its iteration's change."""
    said = []
    pairs, last = result["cosines"]["pairs"], result["cosines"]["loop"][-1]
    if pairs:
        said.append(
            f"cosine of two increments up to {unit} {last}, "
            f"mean over pairs that move: {_span(pairs)}"
        )
    if "contraction" in result:
        found = result["contraction"]
        for name in ("spectral_norm", "spectral_radius"):
            said.append(
                f"{name.replace('_', ' ')} of one loop at loop {found['loop']}: "
                f"{_span(found[name])} (after {found[name]['iterations']} iterations "
                f"within {found[name]['remaining_change']:.1g} of itself)"
            )
        said.append(f"share of prompts with a spectral radius below 1: {_span(found['below_one'])}")
    return said


def _handful(b: int, last: int) -> list[int]:
    """The read-in, the first loop, and around b and beyond it."""
    wanted = {0, 1, 2, b // 2, b - 1, b, 2 * b, 3 * b, last - 1, last}
    return sorted(loop for loop in wanted if 0 <= loop <= last)


def _at(loops: Sequence[int], known: Sequence[int], values: Mapping[str, Any]) -> list[str]:
    """The values at these loops as text; nothing where there is none."""
    means = dict(zip(known, values.get("mean", values.get("value")), strict=True))
    return ["" if means.get(loop) is None else f"{means[loop]:.3g}" for loop in loops]


def _span(curve: Mapping[str, Any]) -> str:
    low, high = curve["low"][0], curve["high"][0]
    return f"{curve['mean'][0]:.3g} (90 %: {low:.3g} to {high:.3g})"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
