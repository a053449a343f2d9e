"""The variants of the kernels that a run takes, and the backend, by a table of what was measured.

rows = read_table(own_path()) + read_table(SHIPPED)
choice = choose("9.0", "bf16", Shape(256, 8, 1024, prompts=64, tokens=81), rows)
choice.variants.mlp_forward                                  # "fused"

variants.json is the table that comes with the project. A user's own, which `action=tune` writes,
goes before it. Neither torch nor triton here.

A row is for the compute capability of a card ("9.0"), a precision (bf16, tf32, fp32), and n_embd,
hidden and rows of a Shape. It says what is ahead there: of each operation the variant, by its field
of Variants, and the backend, triton or compile.

Card, date and milliseconds, by what was timed and by way, are those of the measurement.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import log2
from pathlib import Path
from typing import Any, NamedTuple

from looplab.conf.checksum import key_of
from looplab.conf.files import cache_folder
from looplab.conf.mistakes import RunError

from .variants import VARIANTS, Variants

SHIPPED = Path(__file__).with_name("variants.json")
INTERPRETER = "interpreter"  # stands for a compute capability where Triton interprets kernels
BACKENDS = ("triton", "compile")
BY_CUBLAS = Variants(**dict.fromkeys(VARIANTS, "cublas"))
_FAR = 2  # powers of two between a run's rows and the measured ones, which are then others
Row = dict[str, Any]


class Shape(NamedTuple):
    """The sizes of a run's layers: the stream's width, its heads, the MLP's width, and the prompts
    and tokens that they get at once."""

    n_embd: int
    n_head: int
    hidden: int
    prompts: int
    tokens: int

    @property
    def rows(self) -> int:
        """Prompts x tokens, to the nearest power of two."""
        return 2 ** round(log2(self.prompts * self.tokens))


@dataclass(frozen=True)
class Choice:
    """What a table chose: the variants, the backend that is ahead, and the digest of the table;
    None where a run did not choose. Equal ones compute alike."""

    variants: Variants = field(default_factory=Variants)
    backend: str = field(default="triton", compare=False)
    table: str | None = field(default=None, compare=False)


def choose(capability: str, precision: str, shape: Shape, rows: Sequence[Row]) -> Choice:
    """The choice of a table's rows: by the nearest in number of rows, of the same widths, on such a
    card in this precision. All by cuBLAS, with triton, where none is within a factor of two. Most
    products of `mixed` are bf16's."""
    precision = "bf16" if precision == "mixed" else precision
    chosen = Choice(BY_CUBLAS, table=key_of(rows))
    nearest = float(_FAR)
    wanted: Row = {
        "capability": capability,
        "precision": precision,
        "n_embd": shape.n_embd,
        "hidden": shape.hidden,
    }
    for row in rows:
        distance = abs(log2(row["rows"] / shape.rows))
        # Of two as near the first: the user's own.
        if distance < nearest and row.items() >= wanted.items():
            nearest = distance
            chosen = Choice(Variants(**row["variants"]), row["backend"], chosen.table)
    return chosen


def own_path() -> Path | None:
    """The file of the user's own table; None where nothing can be kept."""
    folder = cache_folder()
    return folder / "variants.json" if folder else None


def read_table(path: Path | None) -> list[Row]:
    """The rows of a table; none where there is no file. Raises RunError, which names the file, for
    one that is damaged."""
    if path is None:
        return []
    try:
        rows: list[Row] = json.loads(path.read_text(encoding="utf-8"))["rows"]
        for row in rows:
            log2(row["rows"])  # refuses what is no number of rows
            # Refuses what no run can take.
            BACKENDS.index(row["backend"])
            Variants(**row["variants"])
            for name, allowed in VARIANTS.items():
                allowed.index(row["variants"][name])
    except FileNotFoundError:
        return []
    except Exception:  # of any kind: it may hold anything
        problem = "cannot be read or is damaged; without it the shipped one holds"
        raise RunError(f"{path}, a table of kernels' variants, {problem}") from None
    return rows
