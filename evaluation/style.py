"""The colour and the dash of every curve, the same in every picture and on the report page.

styles_of(["looped", "looped", "lasso"])      # three that differ

Models are solid or in long dashes, solvers in short ones. The colours (Okabe and Ito's, and Tol's
muted ones) can be told apart by colour-blind readers; two kinds that are drawn together differ in
grey too, by lightness or by dash. Curves of numbers, as of loops or layers, are darker for larger
numbers.
"""

import math
from collections.abc import Sequence
from typing import Any
from zlib import crc32

from matplotlib import colormaps
from matplotlib.colors import to_hex

from looplab.conf.schema import ModelConfig

Dash = str | tuple[int, tuple[float, ...]]  # as matplotlib's linestyle, in widths of the line
_SOLID: Dash = "-"
_LONG: Dash = (0, (6, 1.6))
_LONG_DOT: Dash = (0, (6, 1.6, 1, 1.6))
_SHORT: Dash = (0, (3, 1.4))
_SHORT_DOT: Dash = (0, (3, 1.4, 1, 1.4))
_SHORT_DOTS: Dash = (0, (3, 1.4, 1, 1.4, 1, 1.4))
_DOTS: Dash = (0, (1, 1.3))
_DASHES = (_SOLID, _LONG, _DOTS, _LONG_DOT, _SHORT, _SHORT_DOT, _SHORT_DOTS)
_STYLES: dict[str, tuple[str, Dash]] = {
    # Families of models, and ways to loop.
    "looped": ("#0072B2", _SOLID),
    "standard": ("#D55E00", _LONG),
    "tied": ("#009E73", _LONG_DOT),
    "LT": ("#56B4E9", _SOLID),
    "LT_i": ("#332288", _LONG),
    "LT_ai": ("#CC79A7", _LONG_DOT),
    "FLT": ("#882255", _SOLID),
    "FLT_res": ("#E69F00", _LONG),
    "recurrent": ("#117733", _SOLID),
    "unnormed": ("#44AA99", _LONG),
    "lanes": ("#661100", _LONG_DOT),
    # Solvers.
    "bayes": ("#000000", _DOTS),
    "least_squares": ("#AA4499", _SHORT),
    "ridge": ("#CC6677", _SHORT_DOT),
    "lasso": ("#117733", _SHORT_DOTS),
    "averaging": ("#999933", _DOTS),
    "nearest_neighbours": ("#E69F00", _SHORT_DOT),
    "greedy_tree_2": ("#88CCEE", _SHORT),
    "greedy_tree_4": ("#1B5E20", _SHORT),
    "greedy_tree_2_signs": ("#88CCEE", _DOTS),
    "greedy_tree_4_signs": ("#1B5E20", _DOTS),
    "boosted_trees": ("#882255", _SHORT_DOTS),
    "boosted_trees_signs": ("#882255", _SHORT_DOT),
    "network": ("#332288", _SHORT_DOT),
    "majority": ("#777777", _DOTS),
    "gradient_descent": ("#E69F00", _SHORT),
    "preconditioned_gradient_descent": ("#882255", _SHORT_DOT),
    "conjugate_gradients": ("#117733", _SHORT_DOT),
    "newton": ("#332288", _SHORT),
    # Those of scikit-learn beside one context.
    "logistic": ("#AA4499", _SHORT),
    "k-NN": ("#E69F00", _SHORT_DOT),
    "forest": ("#117733", _SHORT_DOTS),
    "boosting": ("#882255", _DOTS),
    # Residual scalings, recipes of training, and optimisers.
    "none": ("#222222", _SOLID),
    "sqrt": ("#E69F00", _SOLID),
    "linear": ("#0072B2", _SOLID),
    "factored": ("#44AA99", _LONG),
    "paper": ("#D55E00", _LONG),
    "fast": ("#0072B2", _SOLID),
    "adam": ("#D55E00", _LONG),
    "muon": ("#0072B2", _SOLID),
    # Tokens.
    "interleaved": ("#D55E00", _LONG),
    "pairs": ("#0072B2", _SOLID),
    "head": ("#009E73", _LONG_DOT),
    # Parts of a probing.
    "probe": ("#0072B2", _SOLID),
    "linear_probe": ("#44AA99", _LONG),
    "control": ("#000000", _SHORT),
    "published": ("#D55E00", _DOTS),
    "median": ("#000000", _DOTS),
    # Trained to halt.
    "act": ("#CC79A7", _LONG_DOT),
    "ponder": ("#D55E00", _LONG),
    # Whose change over a loop it is, or what early exit goes by.
    "state": ("#882255", _SHORT),
    "prediction": ("#E69F00", _SHORT_DOT),
}
# For a kind of a plugin: chosen by its name. Dark enough for a white page.
_OTHERS = ("#332288", "#117733", "#AA4499", "#882255", "#999933", "#CC6677", "#44AA99")
_LIGHTEST = 0.8  # of viridis, from dark to light: the rest is hard to see on white
_DARKEST_AT = 64  # loops or layers


def styles_of(kinds: Sequence[str]) -> list[dict[str, Any]]:
    """The styles of one picture's curves, each its `color` and its `linestyle`: further curves of a
    kind have its colour and another dash."""
    taken: list[tuple[str, Dash]] = []
    for kind in kinds:
        number = crc32(kind.encode())  # of a name that is not known here, as a plugin's
        dash = _DASHES[1 + number // len(_OTHERS) % (len(_DASHES) - 1)]
        color, dash = _STYLES.get(kind, (_OTHERS[number % len(_OTHERS)], dash))
        others = [each for each in _DASHES if (color, each) not in taken]
        if (color, dash) in taken and others:
            dash = others[0]
        taken.append((color, dash))
    return [{"color": color, "linestyle": dash} for color, dash in taken]


def style_of_number(number: float) -> dict[str, Any]:
    """The style of a curve that stands for a number of loops or layers: the larger, the darker, and
    the same in every picture."""
    share = min(1.0, math.log2(max(number, 0) + 1) / math.log2(_DARKEST_AT + 1))
    color = to_hex(colormaps["viridis"](_LIGHTEST * (1 - share)))
    return {"color": color, "linestyle": _SOLID}


def kind_of(model: ModelConfig) -> str:
    """The kind of a model's curve: its way to loop where that has a name of its own, else its
    family."""
    if model.family != "looped":
        return model.family
    if model.connectivity is not None:
        return model.connectivity
    if model.lanes:
        return "lanes"
    if model.prelude or model.coda:
        return "recurrent"
    return "unnormed" if model.norm == "at_readout" else "looped"
