"""`python run.py action=play`. No torch here."""

from collections.abc import Sequence

from looplab.conf.command import described, run_command

from ..settings import PlaySettings

_HELP = """\
Write one HTML page on which anyone draws points and watches a model find the function, or tell two
classes apart, loop by loop: the model runs in the page, which needs neither server nor network.

  python run.py action=play run=runs/NAME                 a run of task=curves, as play/NAME.html
  python run.py action=play run=runs/A also=runs/B,runs/C     others on the same points
  python run.py action=play run=classifier                the classifier that ships: two columns

Settings, with their defaults:
{settings}
"""


def main(words: Sequence[str]) -> int:
    """Run the command; returns the exit code."""

    def write(settings: PlaySettings) -> str:
        from .write import write_page  # imports torch

        return write_page(settings)

    help_text = _HELP.format(settings=described(PlaySettings))
    return run_command("run.py", PlaySettings, words, lambda: help_text, write)
