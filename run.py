"""The main command in a checkout: `python run.py --help`. Installed, it is `looplab`."""

import os
import sys

if __name__ == "__main__":  # before the imports, which take a while
    # `python -P` does not search a script's own folder.
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    from looplab.conf.entry import begin

    begin()

from looplab.main import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
