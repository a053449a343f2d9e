"""What a page's pictures take from matplotlib's SVG, which no documentation promises."""

import re

from looplab.show.page.svg import FONTS, HASH, HEADER, KEPT_IDS, OTHER_IDS, drawn_svg, svg
from looplab.show.panel import Curve, Panel

PANEL = Panel(
    "picture",
    "The title",
    "k",
    "error",
    [1, 2],
    [
        Curve(label="line", kind="looped", mean=[0.3, 0.5], low=[0.2, 0.4], high=[0.4, 0.6]),
        Curve(label="points", kind="lasso", mean=[0.3, 0.5], points=True),
    ],
)


def test_matplotlibs_svg_has_the_names_that_the_page_replaces() -> None:
    text = drawn_svg(PANEL)
    assert [part[:5] for part in re.findall(HEADER, text)] == ["<meta", "<defs"]
    assert re.search(OTHER_IDS, text)
    assert re.search(FONTS, text)
    assert len(re.findall(KEPT_IDS, text)) > len(PANEL.curves)
    references = re.findall(r'(?:href="#|url\(#)([^")]*)', text)
    assert references
    assert all(re.fullmatch(HASH, name) for name in references)


def test_the_ids_of_a_pages_svg_begin_with_its_own_name() -> None:
    text = svg(PANEL, "own")
    ids = re.findall(r' id="([^"]*)"', text)
    assert {"own-curve-0", "own-curve-1", "own-band-0", "own-hit-0", "own-hit-1"} <= {*ids}
    references = re.findall(r'(?:href="#|url\(#)([^")]*)', text)
    assert all(name.startswith("own-") for name in (*ids, *references))
    assert len(ids) == len({*ids})
