"""The main command in a checkout: `python run.py --help`. Installed, it is `looplab`."""

if __name__ == "__main__":  # before the imports, which take a while
    from looplab.conf.entry import begin

    begin()

import sys

from looplab.main import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
