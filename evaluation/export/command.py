"""`python run.py action=export`."""

from collections.abc import Sequence
from dataclasses import MISSING, dataclass
from pathlib import Path

from looplab.conf.checks.folders import check_folder
from looplab.conf.command import run_command
from looplab.conf.mistakes import ConfigError
from looplab.conf.saved import read_config
from looplab.conf.setting import setting

_HELP = """\
Write a finished run as a folder that travels.

  python run.py action=export run=runs/NAME folder=PATH

It holds model.safetensors, config.json, a card (README.md) and what a run folder has: load_run and
from_pretrained of looplab read it, every run=PATH takes it, and the Hugging Face hub shows it. A
language model is one of transformers, too: AutoModelForCausalLM with trust_remote_code=True. In
models/checkpoints/NAME of a checkout it ships with the project, as shipped/NAME.
"""


@dataclass(frozen=True)
class ExportSettings:
    """The run, and the folder to make of it."""

    run: str = setting(MISSING, "the finished run")
    folder: str = setting(MISSING, "a new folder, or an empty one")

    def check(self) -> None:
        """Raises ConfigError for the first invalid setting."""
        read_config(Path(self.run))
        check_folder("folder", self.folder)
        if Path(self.folder).exists() and any(Path(self.folder).iterdir()):
            raise ConfigError("folder", f"must be new or empty: {self.folder} holds files")


def main(words: Sequence[str]) -> int:
    """Run the command; returns the exit code."""

    def write(settings: ExportSettings) -> str:
        from looplab.evaluation.load import load_run
        from looplab.show.card import card

        from .export import export

        path = export(load_run(settings.run), Path(settings.folder), card)
        return f'{path}: from looplab import from_pretrained; run = from_pretrained("{path}")'

    return run_command("run.py", ExportSettings, words, lambda: _HELP, write)
