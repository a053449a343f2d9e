"""`python -m benchmarks.time_to_quality task=linear`: which recipe reaches an error first."""

from __future__ import annotations

if __name__ == "__main__":  # before the imports, which take a while
    from looplab.conf.entry import begin

    begin()

import sys

from looplab.benchmarks.time_to_quality.settings import QualitySettings, targets_table
from looplab.conf.command import answered, described
from looplab.conf.words import settings_from_words

_STOP_MESSAGE = "stopped, with every training saved; the same command resumes"
_HELP = """\
Train by several recipes and measure when each reaches a target: the error over the variance of y at
the last loop, on the same prompts for all, averaged over the numbers of examples k.

  python -m benchmarks.time_to_quality task=sparse_linear scale=small 'recipes=[paper,fast]' seeds=3
  python -m benchmarks.time_to_quality task=linear 'recipes=[fast]' \\
      'variants=["training.ema_decay=0","training.optimizer=adamw training.learning_rate=4e-3"]'

A training is measured after each of `measurements` equal parts of its steps. The target is reached
where the upper end of the 90 % interval over prompts lies at or under it; then the training pauses,
unless to_end=true. Learning rates fall towards the recipe's last step, which is fixed beforehand: a
recipe of fewer steps is another recipe. Seconds are those of training, measuring left out.

Settings, with their defaults:
{settings}
target and k, if not given, are those of benchmarks/time_to_quality/targets.json:
{targets}
Settings of run.py (training.steps=2000, precision=bf16) hold for all recipes; each of `variants`
holds some that are added to every recipe, for a further row. The ratio is that of the first row's
seconds to another's, paired by seed, with a 90 % interval from their logarithms.

Track A: the model, prompts and targets of the scale. Track B: other targets or another model of at
most its parameters, measured on the same prompts. A record (docs/records.md) wants to_end=true,
five seeds, and p < .01 that their mean error at the last step is under the target.

Into folder go run folders and race-<hash>/: time_to_quality.json and figures. The same command
resumes. Exit code: 0 done, 1 a training failed, 2 a mistake in the command, 130 and 143 stopped by
a signal.
"""


def _is_training_setting(word: str) -> bool:
    """Whether a word is a setting of run.py, which applies to every training."""
    name = word.partition("=")[0]
    return "." in name or name in ("device", "precision", "backend")


def main(words: list[str]) -> int:
    """Run the command; returns the exit code."""
    if {"-h", "--help"} & set(words):
        text = _HELP.format(settings=described(QualitySettings), targets=targets_table())
        print(text, end="")
        return 0

    def run() -> int:
        race_words = [word for word in words if not _is_training_setting(word)]
        settings = settings_from_words(QualitySettings, race_words)
        settings.check()
        from looplab.benchmarks.time_to_quality.race import race

        print(race(settings, [word for word in words if _is_training_setting(word)]), flush=True)
        return 0

    return answered("benchmarks.time_to_quality", run, _STOP_MESSAGE)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
