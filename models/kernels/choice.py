"""The variants of the kernels that a run takes, and the backend, by a table of what was measured.

choice = choose("9.0", "bf16", Shape(n_embd=256, hidden=1024, rows=5184), table())
choice.variants.mlp_forward                              # "fused"

variants.json is the table that comes with the project. A user's own, which `action=tune` writes,
goes before it. Neither torch nor triton here.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import log2
from pathlib import Path
from typing import Any, NamedTuple

from looplab.conf.checksum import key_of
from looplab.conf.mistakes import RunError

from .variants import VARIANTS, Variants

SHIPPED = Path(__file__).with_name("variants.json")
PRECISIONS = ("bf16", "tf32", "fp32")
INTERPRETER = "interpreter"  # stands for a compute capability where Triton interprets kernels
_BACKENDS = ("triton", "compile")
_NEAR = 1  # powers of two between a run's rows and the measured ones, at most
BY_CUBLAS = Variants(**dict.fromkeys(VARIANTS, "cublas"))


class Shape(NamedTuple):
    """The sizes of a run's products: the stream's width, the MLP's, and how many rows (prompts x
    tokens) they have at once."""

    n_embd: int
    hidden: int
    rows: int


@dataclass(frozen=True)
class Row:
    """What is ahead at one shape, on cards of one compute capability ("9.0"): the variant of each
    operation by its field of Variants, and the backend, triton or compile. `rows` is a power of
    two. Card, date and milliseconds, by what was timed and by way, are those of the measurement."""

    capability: str
    precision: str
    n_embd: int
    hidden: int
    rows: int
    variants: Mapping[str, str]
    backend: str
    card: str
    date: str
    milliseconds: Mapping[str, Mapping[str, float | None]]

    @property
    def place(self) -> tuple[str, str, int, int, int]:
        """What a table has one row of."""
        return (self.capability, self.precision, self.n_embd, self.hidden, self.rows)

    def check(self) -> None:
        """Raises ValueError for a value that no row has."""
        if self.precision not in PRECISIONS or self.backend not in _BACKENDS:
            raise ValueError(f"{self.precision} by {self.backend}")
        for name, allowed in VARIANTS.items():
            if self.variants.get(name) not in allowed:
                raise ValueError(f"{name} is {self.variants.get(name)}")
        if min(self.n_embd, self.hidden) < 1 or self.rows != rounded_rows(self.rows):
            raise ValueError(f"sizes are {self.n_embd}, {self.hidden}, {self.rows}")


@dataclass(frozen=True)
class Choice:
    """What a table chose: the variants, the backend that is ahead, and the digest of the table;
    None where a run did not choose."""

    variants: Variants = field(default_factory=Variants)
    backend: str = "triton"
    table: str | None = None

    def record(self) -> dict[str, Any]:
        """The variants and the table, for environment.json."""
        return {"variants": asdict(self.variants), "table": self.table}

    @classmethod
    def read(cls, record: Mapping[str, Any] | None) -> "Choice":
        """That of a record; without one that of a run that had no other variants than `fused`."""
        if record is None:
            return cls()
        return cls(Variants(**record["variants"]), table=record["table"])


def choose(capability: str, precision: str, shape: Shape, rows: Sequence[Row]) -> Choice:
    """The choice of a table's rows: by the nearest in number of rows, of the same widths, on such a
    card in this precision. All by cuBLAS, with triton, where none is within a factor of two."""
    wanted = (capability, precision, shape.n_embd, shape.hidden)
    here = log2(rounded_rows(shape.rows))
    alike = [row for row in rows if row.place[:4] == wanted]
    distances = [abs(log2(row.rows) - here) for row in alike]
    digest = key_of([asdict(row) for row in rows])
    if min(distances, default=_NEAR + 1) > _NEAR:
        return Choice(BY_CUBLAS, table=digest)
    # Of two as near the first: the user's own.
    nearest = alike[distances.index(min(distances))]
    return Choice(Variants(**nearest.variants), nearest.backend, digest)


def rounded_rows(rows: int) -> int:
    """The nearest power of two."""
    return 2 ** round(log2(max(rows, 1)))


def table() -> list[Row]:
    """The rows of the user's own table, then those of the shipped one. Errors as `read_table`."""
    return [*read_table(own_path()), *read_table(SHIPPED)]


def own_path() -> Path:
    """The file of the user's own table."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(cache) / "looplab" / "variants.json"


def read_table(path: Path) -> list[Row]:
    """The rows of a table; none where there is no file. Raises RunError, which names the file, for
    one that is damaged."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        rows = [Row(**values) for values in content["rows"]]
        for row in rows:
            row.check()
    except FileNotFoundError:
        return []
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise RunError(f"{path}, a table of kernels' variants, is damaged ({reason})") from None
    return rows
