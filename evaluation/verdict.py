"""What is known of a claim: what it says, and the verdict on it.

verdict = Verdict.read(json.loads(text)["verdicts"][0])
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from .plain import Fields, Plain

Side = Literal["above", "below", "within"]  # of a line; of a band
Line = float | Sequence[float]  # or both ends of a band
VerdictName = Literal["holds", "fails", "not settled", "not measured", "paper scale"]


@dataclass(frozen=True, kw_only=True)
class Said:
    """What a claim says, and beside what it stands."""

    sentence: str
    source: str  # "arXiv 2311.12424, Figure 2"
    quantity: str  # whose number decides the claim
    published: str = ""  # the published number
    published_of: str = ""  # what that is of, where it is not the quantity
    published_steps: int | None = None  # 0: of a model as it is initialised
    line: Line
    holds_if: Side  # of the line
    line_set: Literal["before", "after"] = "before"  # the result was known
    statement: str = ""  # the id of the paper's statement that the claim is a part of
    says: str = ""  # this statement in our words


@dataclass(frozen=True, kw_only=True)
class Verdict(Said, Plain):
    """A judged claim, as result.json has it."""

    claim: str  # its name
    mean: float | None = None  # of the quantity; None where it was not measured
    low: float | None = None  # of its 90 % interval; None for -∞
    high: float | None = None  # None for ∞
    seeds: int = 0
    steps: int = 0  # the fewest of its runs
    scale: str = ""
    verdict: VerdictName
    note: str = ""  # what a reader must know, or why nothing was measured
    command: str = ""  # that makes it

    def plain(self) -> Fields:
        """Every field, the claim's name first."""
        return {"claim": self.claim, **asdict(self)}
