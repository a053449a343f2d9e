"""`python -m probing run=runs/NAME`: what each loop of a trained model holds."""

from __future__ import annotations

import sys

from conf.checks import ConfigError
from conf.words import settings_from_words

from .settings import ProbingSettings

_HELP = """\
Train probes on every loop (or layer) of a trained run and every context length; test, draw.

  python -m probing run=runs/NAME
  python -m probing run=runs/NAME targets=[gradient,ridge,weights] seeds=3
  python -m probing run=runs/NAME protocol=reference steps=10000 batch_size=1280

Settings, with their defaults: {settings}
Targets: {targets}
"""


def main(words: list[str]) -> int:
    """Do what the words ask for; the exit code."""
    if {"-h", "--help"} & set(words):
        from .targets import TARGETS

        defaults = {k: v for k, v in vars(ProbingSettings()).items() if k != "run"}
        shown = ", ".join(f"{key}={value}" for key, value in defaults.items())
        print(_HELP.format(settings=shown, targets=", ".join(TARGETS)), end="")
        return 0
    try:
        settings = settings_from_words(ProbingSettings, words)
        settings.check()
        return _probe(settings)
    except ConfigError as error:
        print(f"probing: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nstopped; the same command goes on", flush=True)
        return 130


def _probe(settings: ProbingSettings) -> int:
    # Imported here, so that mistakes are answered without waiting for torch.
    from evaluation import load_run
    from training import RunError

    from .probe import probe
    from .report import table

    try:
        run = load_run(settings.run)
        result = probe(run, settings)
    except (RunError, OSError) as error:
        print(f"probing: {error}", file=sys.stderr)
        return 1
    print(f"{table(result)}\n\n{run.path}: probing.json, probing/figures/", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
