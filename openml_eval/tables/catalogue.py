"""The ten tables of the published experiment, with notes that their results must be read with.

All but the last are regression tables made binary: class P is the target below its mean, and the
target column is gone. Rows and numeric features are OpenML's; `printed` holds those of the
paper's Table 1 where they differ.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Entry:
    """One table: rows and numeric features as listed at OpenML; `printed` is (rows, features) of
    Table 1 (arXiv 2311.12424) if it differs; `fact` is a sentence for readers, or empty."""

    openml_id: int
    name: str
    rows: int
    features: int
    printed: tuple[int, int] | None = None
    fact: str = ""

    def remarks(self, rows: int, features: int) -> list[str]:
        """Sentences on a copy with these rows and numeric features: whether it is as expected,
        whether the paper prints other numbers, and the fact."""
        sentences = []
        if (rows, features) != (self.rows, self.features):
            sentences.append(
                f"not as expected: {self.rows:,} rows of {self.features} numeric features; "
                "another version, or not this table"
            )
        if self.printed is not None:
            sentences.append(
                f"the paper's Table 1 prints {self.printed[0]:,} rows of {self.printed[1]}"
            )
        return [*sentences, self.fact] if self.fact else sentences


TABLES = (
    Entry(720, "abalone", 4177, 7),
    Entry(725, "bank8FM", 8192, 8),
    Entry(
        737,
        "space_ga",
        3107,
        6,
        printed=(3107, 8),
        fact="its class is a coordinate below its mean or above: where a county lies, no vote",
    ),
    Entry(803, "delta_ailerons", 7129, 5),
    Entry(807, "kin8nm", 8192, 8),
    Entry(816, "puma8NH", 8192, 8),
    Entry(819, "delta_elevators", 9517, 6),
    Entry(847, "wind", 6574, 14),
    Entry(
        871,
        "pollen",
        3848,
        5,
        fact="its class is the half of the file that a row stands in: 0.5 is the best accuracy",
    ),
    Entry(
        42192,
        "compas-two-years",
        5278,
        5,
        printed=(3848, 7),
        fact="its printed rows are those of 871; its printed accuracies fit 264 rows of test, "
        "5 % of 5,278",
    ),
)


def entry(openml_id: int) -> Entry | None:
    """The catalogue's entry of an OpenML id; None for an id outside the ten."""
    return next((each for each in TABLES if each.openml_id == openml_id), None)


def ids_by_name() -> dict[str, int]:
    """The ten ids by their tables' names."""
    return {each.name: each.openml_id for each in TABLES}
