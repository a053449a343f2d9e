"""The main command: train and evaluate. `python run.py --help`."""

import os
import sys

from looplab import __version__
from looplab.conf.checks.folders import check_folder
from looplab.conf.checks.processes import is_follower, refuse_torchrun
from looplab.conf.checks.reach import check_reach
from looplab.conf.command import answered
from looplab.conf.compose import commands
from looplab.conf.help import START, help_text, settings_text
from looplab.conf.words import as_called


def main(words: list[str]) -> int:
    """Run the command of these words; the exit code."""
    if is_follower():  # of the processes of one training only the first prints
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    if not words:
        print(as_called(START), end="")
        return 0
    from looplab.evaluation.export import command as export
    from looplab.evaluation.text import command as text
    from looplab.experiments import command as experiments

    if "--version" in words:
        print(f"looplab {__version__}")
        return 0
    if "action=list" in words:
        from looplab.show import listing  # with NumPy, which takes a while

        return listing.main(words)
    if words[:1] == ["lm_eval"]:
        return text.lm_eval(words)
    from looplab.show.play import command as play

    starts = {"generate": text.generate, "core": text.core, "export": export.main}
    starts |= {"report": experiments.report, "play": play.main}
    for action, start in starts.items():
        if f"action={action}" in words:
            return start([word for word in words if word != f"action={action}"])
    if any(word.startswith("experiment=") or word == "action=figure" for word in words):
        return experiments.main(words)
    if experiments.MULTIRUN & set(words):
        return experiments.grid(words)
    if {"-h", "--help"} & set(words):
        print(as_called(help_text()), end="")
        return 0

    def run() -> int:
        if "--settings" in words:
            print(settings_text([word for word in words if word != "--settings"]))
            return 0
        experiments.check_single(words)
        return _run(words)

    return answered("run.py", run, "stopped; the same command resumes", in_processes=True)


def _run(words: list[str]) -> int:
    """Carry out one command; the exit code."""
    for word in {"action=evaluate", "action=compare", "action=import", "action=tune"} & set(words):
        refuse_torchrun(word)
    (command,) = commands(words)
    if command.action != "evaluate" and not is_follower():  # the first process alone needs it
        check_folder("folder", command.config.folder)
    if command.action == "train":
        check_reach(command.config)
    elif command.action == "evaluate":
        check_reach(command.config, "evaluation")
    # Imported here, so that --help and most mistakes need not wait for torch.
    from looplab.experiments.one_command import carry_out
    from looplab.training import Interrupted

    try:
        carry_out(command)
    except Interrupted as stop:
        print(f"\n{stop}", flush=True)
        return stop.exit_code
    return 0
