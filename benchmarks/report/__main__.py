"""What benchmarks/gpu_report.sh measured, as Markdown: parts, tests, steps, profiles, parity.

    python -m benchmarks.report folders=OUT
    python -m benchmarks.report 'folders=[FIRST,SECOND]'      two halves that were run apart

A folder is one that the script has written, with its report.tar.gz.
"""

from __future__ import annotations

if __name__ == "__main__":  # before the imports, which take a while
    from reloop.conf.entry import begin

    begin()

import sys
from pathlib import Path

from reloop.benchmarks.report.archive import read_archives
from reloop.benchmarks.report.sections import markdown
from reloop.benchmarks.report.settings import ReportSettings
from reloop.conf.command import described, run_command


def main(words: list[str]) -> int:
    """Run the command; returns the exit code."""
    help_text = f"{__doc__}\nSettings, with their defaults:\n{described(ReportSettings)}\n"
    return run_command("benchmarks.report", ReportSettings, words, lambda: help_text, _text)


def _text(settings: ReportSettings) -> str:
    return markdown(read_archives([Path(folder) for folder in settings.folders]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
