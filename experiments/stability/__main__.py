"""`python -m experiments.stability figure=toy`: the stability of loops."""

from __future__ import annotations

if __name__ == "__main__":  # before the imports, which take a while
    from looplab.conf.entry import begin

    begin()

import sys

from looplab.conf.command import as_word, described, run_command
from looplab.experiments.stability.settings import FIGURES, INITS, WIDTH, StabilitySettings

_STOP_MESSAGE = "stopped; the same command resumes from what was trained"
_HELP = """\
The stability of a loop: how its stream grows with its loops R, how far an update moves its output,
and its error after training by learning rate, with residual branches scaled by 1 (none), 1/√R
(sqrt) and 1/R (linear) (arXiv 2606.18524), and with fully looped connectivities (arXiv 2605.18797).

  python -m experiments.stability figure=toy
  python -m experiments.stability figure=changes init=strong

Figures, with each one's defaults of init, loops, rates and seeds:
{figures}
Settings, with their defaults:
{settings}
init names a transformer of Llama blocks (width {width}):
{transformers}
null: the figure's own. A model is trained at all its loops from the first step. Into folder go a
JSON with every seed's numbers and, in a folder of its name, PNGs with the CSV behind each. The same
command resumes.
"""


def main(words: list[str]) -> int:
    """Run the command; returns the exit code."""
    return run_command(
        "experiments.stability", StabilitySettings, words, _help, _measure, _STOP_MESSAGE
    )


def _help() -> str:
    pad = max(map(len, FIGURES))
    figures = []
    for name, figure in FIGURES.items():
        figures.append(f"  {name.ljust(pad)}  {figure.shows}")
        names = [key for key in ("init", "loops", "rates", "seeds") if key in figure.takes]
        if words := " ".join(f"{key}={as_word(getattr(figure, key))}" for key in names):
            figures.append(f"  {' ' * pad}    {words}")
    pad = max(map(len, INITS))
    transformers = [
        f"  {name.ljust(pad)}  U = {init.layers}, embedding std {init.embedding_std:g}, block std "
        f"{init.block_std:g}, AdamW {init.learning_rate:g}"
        for name, init in INITS.items()
    ]
    return _HELP.format(
        figures="\n".join(figures),
        settings=described(StabilitySettings),
        width=WIDTH,
        transformers="\n".join(transformers),
    )


def _measure(settings: StabilitySettings) -> str:
    """Measure and draw the figure; returns the text to print."""
    from looplab.experiments.stability.run import stability

    return stability(settings)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
