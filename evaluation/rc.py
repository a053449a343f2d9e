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
    for name in [name for name in sys.modules if name.startswith("matplotlib.")]:
        del sys.modules[name]  # half of it was imported
    os.environ.pop("MPLBACKEND", None)
    os.environ["MATPLOTLIBRC"] = os.devnull
    import matplotlib

    print(f"matplotlib's settings are left out, as it cannot read them: {one_line(error)}")

# Of the window in which a notebook or a script shows pictures.
_OF_THE_WINDOW = ("backend", "interactive", "toolbar")
DEFAULTS: dict[Any, Any] = {
    key: value for key, value in matplotlib.rcParamsDefault.items() if key not in _OF_THE_WINDOW
}
