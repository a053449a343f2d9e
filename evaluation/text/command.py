"""`python run.py action=generate`."""

from collections.abc import Sequence
from dataclasses import dataclass

from looplab.conf.checks.folders import check_folder
from looplab.conf.command import described, run_command
from looplab.conf.mistakes import ConfigError
from looplab.conf.setting import check_settings, setting

from .settings import Generation

_HELP = """\
Continue a text with a language model.

  python run.py action=generate run=runs/NAME prompt="Call me"
  python run.py action=generate run=runs/NAME prompt="Call me" tokens=500 temperature=0.7

The prompt is taken as it is typed. Settings, with their defaults:
{settings}
"""
_ACTION, _PROMPT = "action=generate", "prompt="


@dataclass(frozen=True)
class GenerateSettings(Generation):
    """Which model, and how the text is continued."""

    run: str = setting("", "the run folder")

    def check(self) -> None:
        """Raises ConfigError for the first invalid setting."""
        check_settings("", self)
        if not self.run:
            raise ConfigError("run", "must name the run folder of a language model: run=runs/NAME")
        check_folder("run", self.run)


def is_for_generate(words: Sequence[str]) -> bool:
    """Says whether run.py's words are for this command."""
    return _ACTION in words


def main(words: Sequence[str]) -> int:
    """Run the command; returns the exit code."""
    prompts = [word.removeprefix(_PROMPT) for word in words if word.startswith(_PROMPT)]
    rest = [word for word in words if word != _ACTION and not word.startswith(_PROMPT)]
    prompt = prompts[-1] if prompts else ""

    def show(settings: GenerateSettings) -> str:
        from looplab.evaluation import load_run

        from .generate import generate

        return f"{prompt}{generate(load_run(settings.run), prompt, settings)}"

    help_text = _HELP.format(settings=described(GenerateSettings))
    return run_command("run.py", GenerateSettings, rest, lambda: help_text, show)
