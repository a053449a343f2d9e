"""`python -m openml_eval held_out=720`: train on all tables but one, test on that one;
`action=fetch`: get the tables of the published experiment, and one's own."""

if __name__ == "__main__":  # before the imports, which take a while
    from looplab.conf.entry import begin

    begin()

import sys

from looplab.conf.checks.folders import check_folder
from looplab.conf.command import answered, described, run_command
from looplab.conf.mistakes import check_choice
from looplab.conf.words import as_called
from looplab.openml_eval.settings import FetchSettings, RunSettings, asked

_RESUMES = "stopped; the same command resumes"
_RESUMES_SAVED = "stopped, with every training saved; the same command resumes"
_RUN_HELP = """\
Train on all tables but one and test on that one; print the accuracies beside the published Table 2
and those of scikit-learn's solvers on the same contexts.

  python -m openml_eval                                   # each of ten tables, looped and standard
  python -m openml_eval model=looped held_out=720
  python -m openml_eval held_out=720,wind seeds=0,1,2 training.steps=2000
  python -m openml_eval protocol=reference scale=paper    # as published; wants a GPU
  python -m openml_eval run=runs/NAME draws=20            # score a run as it is: no training
  python -m openml_eval action=fetch                      # get the tables first; it has a --help

Settings, with their defaults:
{settings}
All others are run.py's (scale, seed, training.steps, device, folder, ...; python run.py --help).
The same command reuses finished work and resumes the rest.

Exit code: 0 done, 1 a run failed, 2 a mistake in the command, 130 and 143 stopped by a signal.
"""
_FETCH_HELP = """\
Fetch tables with two classes, check and store them; afterwards no network is needed.

  python -m openml_eval action=fetch
  python -m openml_eval action=fetch cache_dir=PATH       # from an existing openml cache
  python -m openml_eval action=fetch tables=720,mine.csv target=bought

Settings, with their defaults:
{settings}
An openml cache is only read.
"""


def main(words: list[str]) -> int:
    """Run the command given by `words`; returns the exit code."""
    action = next((word[7:] for word in words if word.startswith("action=")), "run")
    rest = [word for word in words if word != f"action={action}"]
    if action == "fetch":
        text = _FETCH_HELP.format(settings=described(FetchSettings))
        return run_command("openml_eval", FetchSettings, rest, lambda: text, _fetch, _RESUMES)
    if {"-h", "--help"} & set(rest):
        print(as_called(_RUN_HELP.format(settings=described(RunSettings))), end="")
        return 0
    return answered("openml_eval", lambda: _leave_one_out(action, rest), _RESUMES_SAVED)


def _leave_one_out(action: str, words: list[str]) -> int:
    """Train and test with each table of the command left out."""
    check_choice("action", action, ("run", "fetch"))
    settings, configs = asked(words)
    first = next(iter(configs.values()))
    check_folder("folder", first.folder)
    from looplab.openml_eval.leave_one_out import leave_one_out
    from looplab.openml_eval.report import report

    folder, result = leave_one_out(settings, configs)
    text = report(result, first.tables.format)
    print(f"\n{text}\n\n{folder}: openml.json, figures/", flush=True)
    return 1 if result["failed"] else 0


def _fetch(settings: FetchSettings) -> str:
    from looplab.openml_eval.fetch import fetch

    return fetch(settings)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
