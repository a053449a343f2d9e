"""Which picture is drawn of an experiment's or a grid's runs, as their files say it."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class PanelSpec:
    """A picture: of errors by loop, by examples, by the values of the setting `x`, or on shifted
    inputs; one for each value of the setting `split`, if given."""

    kind: Literal["by_loop", "by_examples", "by_value", "shifts"]
    x: str = ""
    split: str = ""
