"""The main command in a checkout: `python run.py --help`. Installed, it is `reloop`."""

from __future__ import annotations

if __name__ == "__main__":  # before the imports, which take a while
    from reloop.conf.entry import begin

    begin()

import sys

from reloop.main import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
