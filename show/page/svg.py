"""A panel as an SVG within a page, without what matplotlib writes for a file of its own.

All that is known here of matplotlib's SVG beyond its documentation stands in the constants below.
"""

import io
import re
from itertools import pairwise

import numpy as np

from ..rc import RcParams  # isort: skip  (before matplotlib)
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from looplab.evaluation.bootstrap import Floats, numbers
from looplab.show.drawing import METADATA, NAMED, draw_panel, styled, wrap_labels
from looplab.show.panel import Panel

_INCHES = (5.2, 3.4)
_ON_PAGE: RcParams = {
    "svg.fonttype": "none",
    "figure.facecolor": "none",
    "axes.facecolor": "none",
}
HASH = "[mp][0-9a-f]{10}"  # the id of a marker or a clip, which other parts refer to
_OURS = "(?:curve|band|hit)-"  # begins an id that the page's script knows
HEADER = r"(?s)<metadata>.*?</metadata>|<defs>\s*<style.*?</defs>"
OTHER_IDS = rf' id="(?!{_OURS}\d+"|{HASH}")[^"]*"'
FONTS = r' font-family: [^;"]+;?'
KEPT_IDS = rf'( id="|#)(?={_OURS}|{HASH})'
_TAG = r"<[^>]*>"
_LONG_NUMBER = r"\d+\.\d{3,}"


def svg(panel: Panel, prefix: str) -> str:
    """A panel as an SVG for a page that names the curves itself.

    The ids of its parts begin with `prefix`: <prefix>-curve-<i>, <prefix>-band-<i> and, over each x
    of the panel, <prefix>-hit-<i>, a rectangle that is not seen.
    """
    text = re.sub(HEADER, "", drawn_svg(panel))
    text = re.sub(_TAG, _rounded, text)
    # Before the prefix is added: ids that nothing refers to would be doubled on a page of many.
    text = re.sub(OTHER_IDS, "", text)
    text = re.sub(FONTS, "", text)
    text = re.sub(KEPT_IDS, rf"\1{prefix}-", text)
    text = text[text.index("<svg") :]  # a page has no declaration of XML within it
    text = re.sub(r"\s*\n\s*", " ", text)
    return text.replace("> <", "><").strip()


def drawn_svg(panel: Panel) -> str:
    """The SVG as matplotlib writes it."""
    with styled(), rc_context(_ON_PAGE):
        figure = Figure(figsize=_INCHES)
        axes = figure.subplots()
        draw_panel(panel, axes)
        named = [line for line in axes.lines if line.get_gid() == NAMED]
        if named:
            figure.legend(handles=named, loc="outside lower center", ncols=len(named))
        wrap_labels(figure)
        if not panel.matrix:
            _add_hits(numbers(panel.x), axes)
        file = io.StringIO()
        figure.savefig(file, format="svg", metadata=METADATA["svg"])
    return file.getvalue()


def _rounded(tag: re.Match[str]) -> str:
    return re.sub(_LONG_NUMBER, lambda number: f"{float(number[0]):.1f}", tag[0])


def _add_hits(x: Floats, axes: Axes) -> None:
    """Add the rectangles that a page's cursor finds the values of a panel by: each reaches half way
    to the next x, as far as the axes go."""
    left, right = axes.set_xlim(axes.get_xlim())  # which the rectangles do not move
    scale = axes.xaxis.get_transform()
    with np.errstate(divide="ignore"):  # the logarithm of an x of 0
        centres = scale.transform(x)
    middles = scale.inverted().transform((centres[1:] + centres[:-1]) / 2)
    # As many rectangles as there are x, the first and the last reaching to the ends.
    edges = np.clip([left, *middles, right], left, right)
    for index, (begin, end) in enumerate(pairwise(edges)):
        axes.axvspan(begin, end, alpha=0, zorder=9, gid=f"hit-{index}")
