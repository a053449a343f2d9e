"""What our pictures take from matplotlib's settings: its defaults, whatever its user has set.

Imported before matplotlib, whose import a backend that is none or an unreadable matplotlibrc ends.
"""

import os
import sys
from typing import Any

from looplab.conf.mistakes import one_line

try:
    import matplotlib
except (OSError, ValueError) as error:
    for name in list(sys.modules):
        if name.startswith("matplotlib."):  # half of it was imported
            del sys.modules[name]
    os.environ.pop("MPLBACKEND", None)
    os.environ["MATPLOTLIBRC"] = os.devnull
    import matplotlib

    print(f"matplotlib's settings are left out, as it cannot read them: {one_line(error)}")

# By name; matplotlib's own annotation lists all of the names.
RcParams = dict[Any, Any]

DEFAULTS: RcParams = dict(matplotlib.rcParamsDefault)
for key in ("backend", "interactive"):  # how a notebook or a script shows pictures is its own
    del DEFAULTS[key]
