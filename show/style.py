"""The colour and the dash of every curve, the same in every picture and on the report page.

styles_of(["looped", "looped", "lasso"])      # three that differ

Models are solid or in long dashes, solvers in short ones. Colour-blind readers can tell the colours
apart: Okabe and Ito's, and Tol's muted ones. Two curves that are drawn together differ in grey too,
by lightness or by dash. Curves of numbers, as of loops or layers, are darker for larger numbers.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from typing import TypedDict
from zlib import crc32

import numpy as np

from . import rc  # noqa: F401  # isort: skip  (before matplotlib)
from matplotlib import colormaps
from matplotlib.colors import to_hex, to_rgb

Dash = str | tuple[int, tuple[float, ...]]  # as matplotlib's linestyle, in widths of the line
Look = tuple[str, Dash]  # colour and dash


class Style(TypedDict):
    """The look of a curve by the names that matplotlib takes it under."""

    color: str
    linestyle: Dash


_DASHES: dict[str, Dash] = {
    "solid": "-",
    "long": (0, (6, 1.6)),
    "long-dot": (0, (6, 1.6, 1, 1.6)),
    "dots": (0, (1, 1.3)),
    "short": (0, (3, 1.4)),
    "short-dot": (0, (3, 1.4, 1, 1.4)),
    "short-dots": (0, (3, 1.4, 1, 1.4, 1, 1.4)),
}
_LOOKS = {
    # Families of models, and ways to loop.
    "looped": "#0072B2 solid",
    "standard": "#D55E00 long",
    "tied": "#009E73 long-dot",
    "LT": "#56B4E9 solid",
    "LT_i": "#332288 long",
    "LT_ai": "#CC79A7 long-dot",
    "FLT": "#882255 solid",
    "FLT_res": "#E69F00 long",
    "recurrent": "#117733 solid",
    "unnormed": "#44AA99 long",
    "lanes": "#661100 long-dot",
    # Solvers.
    "bayes": "#000000 dots",
    "least_squares": "#AA4499 short",
    "ridge": "#CC6677 short-dot",
    "lasso": "#117733 short-dots",
    "averaging": "#999933 dots",
    "nearest_neighbours": "#888888 short-dot",
    "greedy_tree_2": "#88CCEE short",
    "greedy_tree_4": "#1B5E20 short",
    "greedy_tree_2_signs": "#88CCEE dots",
    "greedy_tree_4_signs": "#1B5E20 dots",
    "boosted_trees": "#882255 short",
    "boosted_trees_signs": "#882255 dots",
    "network": "#332288 short-dot",
    "majority": "#777777 dots",
    "gradient_descent": "#E69F00 short",
    "conjugate_gradients": "#117733 short-dot",
    "newton": "#332288 short",
    # Those of scikit-learn beside one context.
    "logistic": "#AA4499 short",
    "k-NN": "#E69F00 short-dot",
    "forest": "#117733 short-dots",
    "boosting": "#882255 dots",
    # Residual scalings, recipes of training, and optimisers.
    "none": "#222222 solid",
    "sqrt": "#E69F00 solid",
    "linear": "#0072B2 solid",
    "factored": "#44AA99 long",
    "paper": "#D55E00 long",
    "fast": "#0072B2 solid",
    "adam": "#D55E00 long",
    "muon": "#0072B2 solid",
    # Tokens.
    "interleaved": "#D55E00 long",
    "pairs": "#0072B2 solid",
    "head": "#009E73 long-dot",
    # Parts of a probing.
    "probe": "#0072B2 solid",
    "linear_probe": "#44AA99 long",
    "control": "#000000 short",
    "published": "#D55E00 dots",
    "median": "#000000 dots",
    # Trained to halt.
    "act": "#CC79A7 long-dot",
    "ponder": "#D55E00 long",
    # Whose change over a loop it is, or what early exit goes by.
    "state": "#882255 short",
    "prediction": "#E69F00 short-dot",
    # Numbers of a curriculum, and shifted inputs.
    "loops": "#0072B2 solid",
    "dims": "#332288 long-dot",
    "points": "#CC6677 short-dot",
    "shift": "#AA4499 short-dots",
}


def _look(words: str) -> Look:
    color, dash = words.split()
    return color, _DASHES[dash]


STYLES = {kind: _look(words) for kind, words in _LOOKS.items()}
# For further curves of a kind: blue, orange, green and wine first, which differ in grey too.
_PALETTE = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#882255",
    "#56B4E9",
    "#CC79A7",
    "#332288",
    "#999933",
    "#D55E00",
    "#000000",
)
# For a kind that is not known here, as a plugin's: chosen by its name. Each is dark enough for a
# white page and further than `_FAR` from every colour above, so that it is no known curve's.
_OTHERS = ("#0000FF", "#FF00FF", "#BB0000", "#44AA00", "#7700EE", "#FF0044", "#3355FF", "#FF2299")
_LIGHTEST = 0.8  # of viridis, from dark to light: the rest is hard to see on white
_FAR = 0.33  # between red, green and blue, from 0 to 1, of two colours of one picture
_MOST_SHADES = 6  # that can be told apart without dashes


def styles_of(
    kinds: Sequence[str],
    numbers: Sequence[float | None] = (),
    beside: Sequence[Style] = (),
) -> list[Style]:
    """The styles of one picture's curves; `beside` are those of its other curves.

    A kind's first curve has the kind's own style, unless a curve beside it has that colour; a kind
    that is not known here has a colour that no other curve has, by its name. Further curves of a
    kind have colours of a palette, in their order, and other dashes: what is compared differs in
    colour. Where two or more kinds come twice each, colour says which kind and the dash which of
    the two. Curves that stand for `numbers` have the colours of a scale from light to dark, as far
    apart as their count allows.
    """
    numbers = numbers or [None] * len(kinds)
    scale = _scale({number for number in numbers if number is not None})
    counts = Counter(kind for kind, number in zip(kinds, numbers, strict=True) if number is None)
    repeated = [count for count in counts.values() if count > 1]
    # Kinds by two of something, as two models with and without the same change.
    crossed = len(repeated) > 1 and max(repeated) == 2
    taken: list[Look] = [(style["color"], style["linestyle"]) for style in beside]
    firsts = _first_looks(kinds, [color for color, _ in taken])
    seen: set[str] = set()
    for kind, number in zip(kinds, numbers, strict=True):
        if number is not None:
            color, dash = scale[number]
        elif kind in seen and not crossed:
            color, dash = _further_look(list(firsts.values()), taken)
        else:
            color, dash = firsts[kind]
            seen.add(kind)
        # As numbers of two groups, or a model's kind that comes twice in crossed ones.
        if (color, dash) in taken:
            dash = next((free for free in _DASHES.values() if (color, free) not in taken), dash)
        taken.append((color, dash))
    return [Style(color=color, linestyle=dash) for color, dash in taken[len(beside) :]]


def _first_looks(kinds: Sequence[str], beside: Sequence[str]) -> dict[str, Look]:
    """The look of the first curve of each kind, in a picture that has the colours `beside` already.
    Where one of these is its colour, or that of another unknown kind, it takes the next free one of
    `_OTHERS`."""
    looks: dict[str, Look] = {}
    taken = list(beside)
    broken = list(_DASHES.values())[1:]
    for kind in sorted(set(kinds)):  # whichever order they are drawn in
        # Of a name that is not known here, as a plugin's, colour and dash are by its checksum.
        number = crc32(kind.encode())
        # Another part of the checksum than the colour's, so that equal colours may differ in dash.
        dash = broken[number // len(_OTHERS) % len(broken)]
        color, dash = STYLES.get(kind, (_OTHERS[number % len(_OTHERS)], dash))
        if color in taken:
            color = min(_OTHERS, key=taken.count)
        if color in _OTHERS:  # those of the table may be the same, as of a tree on signs
            taken.append(color)
        looks[kind] = color, dash
    return looks


def _further_look(firsts: list[Look], taken: list[Look]) -> Look:
    """The look of a further curve of its kind: a colour unlike those of all others, as long as the
    palette has one, and the dash that the fewest have."""
    used = firsts + taken
    dash = min(_DASHES.values(), key=[other for _, other in used].count)
    for color in _PALETTE + _OTHERS:
        if all(_differ(color, other) for other, _ in used):
            return color, dash
    return min(_PALETTE, key=[other for other, _ in taken].count), dash


def _differ(first: str, second: str) -> bool:
    distance = np.linalg.norm(np.subtract(to_rgb(first), to_rgb(second)))
    return float(distance) > _FAR


def _scale(numbers: Collection[float]) -> dict[float, Look]:
    """The looks of numbers: the larger, the darker; of many of them, in grey like their neighbours,
    every second one is dashed."""
    shares = np.linspace(1, 0, len(numbers)) if len(numbers) > 1 else [0.5]
    looks: dict[float, Look] = {}
    for rank, number in enumerate(sorted(numbers)):
        color = to_hex(colormaps["viridis"](_LIGHTEST * shares[rank]))
        is_dashed = len(numbers) > _MOST_SHADES and rank % 2
        looks[number] = color, _DASHES["long" if is_dashed else "solid"]
    return looks
