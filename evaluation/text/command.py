"""`python run.py action=generate`, `action=core`, and `lm_eval`."""

import sys
from collections.abc import Sequence
from dataclasses import MISSING, dataclass
from pathlib import Path

from looplab.conf.command import answered, described, run_command
from looplab.conf.lazy import optional
from looplab.conf.mistakes import ConfigError, check_device, one_line
from looplab.conf.saved import read_config
from looplab.conf.setting import check_settings, setting

from .settings import Generation

_HELP = """\
Continue a text with a language model.

  python run.py action=generate run=runs/NAME prompt="Call me"
  python run.py action=generate run=runs/NAME prompt="Call me" tokens=500 temperature=0.7

The prompt is taken as it is typed. Settings, with their defaults:
{settings}
"""
_CORE_HELP = """\
Ask a language model the questions of CORE, the 22 tasks of DCLM.

  python run.py action=core run=runs/NAME bundle=FOLDER loops=8 most=500

The folder has core.yaml, eval_meta_data.csv and eval_data/. Settings, with their defaults:
{settings}
"""
_PROMPT = "prompt="


@dataclass(frozen=True, kw_only=True)
class GenerateSettings(Generation):
    """Which model, and how the text is continued."""

    run: str = setting(MISSING, "the run folder of a language model")

    def check(self) -> None:
        """Raises ConfigError for the first invalid setting."""
        check_settings("", self)
        read_config(Path(self.run))


@dataclass(frozen=True)
class CoreSettings:
    """Which model is asked, how, and which questions."""

    run: str = setting(MISSING, "the run folder of a language model")
    bundle: str = setting(MISSING, "the folder of the tasks")
    loops: int | None = setting(None, "loops; null: b, as trained", at_least=1)
    most: int | None = setting(None, "most questions of each task; null: all", at_least=1)
    device: str = setting("auto", "auto, cpu, cuda or cuda:1", check=check_device)

    def check(self) -> None:
        """Raises ConfigError for the first invalid setting."""
        check_settings("", self)
        read_config(Path(self.run))
        if not (Path(self.bundle) / "core.yaml").is_file():
            raise ConfigError("bundle", f"has no core.yaml: {self.bundle}")


def generate(words: Sequence[str]) -> int:
    """Run `action=generate`; returns the exit code."""
    prompts = [word.removeprefix(_PROMPT) for word in words if word.startswith(_PROMPT)]
    rest = [word for word in words if not word.startswith(_PROMPT)]
    prompt = prompts[-1] if prompts else ""

    def show(settings: GenerateSettings) -> str:
        from looplab.evaluation.load import load_run

        from .language_model import generate

        return f"{prompt}{generate(load_run(settings.run), prompt, settings)}"

    help_text = _HELP.format(settings=described(GenerateSettings))
    return run_command("run.py", GenerateSettings, rest, lambda: help_text, show)


def core(words: Sequence[str]) -> int:
    """Run `action=core`; returns the exit code."""

    def show(settings: CoreSettings) -> str:
        from looplab.evaluation.core import core
        from looplab.evaluation.load import load_run
        from looplab.show.core_table import core_table

        from .language_model import language_model

        model = language_model(load_run(settings.run), settings.loops, settings.device)
        return core_table(*core(model, Path(settings.bundle), settings.most))

    help_text = _CORE_HELP.format(settings=described(CoreSettings))
    return run_command("run.py", CoreSettings, words, lambda: help_text, show)


def lm_eval(words: Sequence[str]) -> int:
    """Run lm-evaluation-harness's own command, `lm_eval …`, with the model `looplab`: it does not
    look for models in other packages. Returns the exit code."""

    def run() -> int:
        optional("this command", "lm_eval", "simple_evaluate", "'lm_eval==0.4.13'")
        from lm_eval.__main__ import cli_evaluate

        import looplab.evaluation.lm_eval  # noqa: F401 - the harness then has it

        sys.argv = [*words]
        try:
            cli_evaluate()
        except ConfigError:
            raise
        except ValueError as error:  # as the harness says that an option cannot be
            raise ConfigError("lm_eval", f"says: {one_line(error)}") from None
        return 0

    return answered("run.py", run, "stopped")
