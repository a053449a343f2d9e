"""`looplab task=linear` and `python -m looplab task=linear`: the main command, installed."""

import sys

from looplab.conf.entry import begin


def command() -> None:
    """Do what the words of the command line ask for, and end the process."""
    begin()  # before the other imports, which take a while
    from looplab.main import main

    sys.exit(main(sys.argv[1:]))


if __name__ == "__main__":
    command()
