"""The text of a report: a heading and a table for each kind of part."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from statistics import fmean, median
from typing import Any

from .archive import Part, Report
from .outcomes import outcomes

_ROWS = 12  # of a profile
_NAMES = 40  # of tests that did not pass


def markdown(report: Report) -> str:
    """The whole text."""
    lines = [
        "# Report of benchmarks/gpu_report.sh",
        "",
        *_machine(report.results.values()),
        *_parts(report.parts.values()),
    ]
    if report.tests:
        lines += ["", "## Tests", "", *_tests(report.tests)]
    kinds: dict[str, tuple[str, Callable[[dict[str, Any]], Iterator[str]]]] = {
        "settings": ("Steps", steps),
        "rows": ("Profile", profile),
        "kernels": ("Kernels", kernels),
        "summary": ("Parity", parity),
    }
    for name, result in report.results.items():
        for key, (title, section) in kinds.items():
            if key in result:
                lines += ["", f"## {title}: {name}", "", *section(result)]
    return "\n".join(lines)


def _machine(results: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Each machine and set of versions once."""
    keys = ("device", "torch", "triton", "python", "git_commit")
    seen = {tuple(result.get(key) for key in keys): result.get("date") for result in results}
    for values, date in seen.items():
        facts = ", ".join(f"{key} {value}" for key, value in zip(keys, values, strict=True))
        yield f"{facts}, {date}"
    yield ""


def _parts(parts: Iterable[Part]) -> Iterator[str]:
    meanings = {0: "done", -1: "no time was left", 124: "cut off", 137: "cut off"}
    yield from _table(
        ("half", "part", "exit code", "seconds", "limit", ""),
        (
            (*(str(part.half), part.part, str(part.exit_code)), f"{part.seconds:g}",
             f"{part.limit:g}", meanings.get(part.exit_code, "failed, see its log"))
            for part in parts
        ),
    )  # fmt: skip


def _tests(tests: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """Counts by part, then the names of those that did not pass."""
    by_part = {part: [outcomes(log) for log in logs.values()] for part, logs in tests.items()}
    heads = ("passed", "failed", "unfinished", "skipped")
    yield from _table(
        ("part", *heads),
        (
            (part, *(str(sum(len(each[head]) for each in found)) for head in heads))
            for part, found in by_part.items()
        ),
    )
    for part, found in by_part.items():
        names = [
            f"- {part}: {name} {head}"
            for each in found
            for head in ("failed", "unfinished")
            for name in each[head]
        ]
        yield from ["", *names[:_NAMES]] if names else []
        if len(names) > _NAMES:
            yield f"- {part}: and {len(names) - _NAMES} more"


def steps(result: Mapping[str, Any]) -> Iterator[str]:
    """The variants of each configuration: milliseconds and ratios, theirs / ours."""
    basis = result["basis"]
    for name, measured in result["settings"].items():
        rows = measured["variants"]
        kinds = list(dict.fromkeys(kind for row in rows for kind in row["ratios"]))
        turns = len(rows[0]["seconds"]["wall"]) if rows else 0
        yield f"{name}: {turns} turns, {basis} seconds; ratios: median (quartiles), theirs / ours"
        yield ""
        heads = ("variant", "ms a step", *kinds, "of floor", "kernels", "peak MiB")
        yield from _table(heads, (_step(row, basis, kinds) for row in rows))
        yield ""
        for variant, message in measured["failures"].items():
            yield f"- {variant} failed: {message}"
        if clocks := measured.get("clocks"):
            yield f"Between turns: {_clocks(clocks)}"
            yield ""


def _step(row: Mapping[str, Any], basis: str, kinds: Sequence[str]) -> list[str]:
    ratios = [row["ratios"].get(kind) for kind in kinds]
    of_floor, peak = row.get("fraction_of_floor"), row.get("peak_bytes")
    return [
        row["name"],
        f"{1e3 * row['median_s'][basis]:.4g}",
        *(f"{r['middle']:.3g} ({r['low']:.3g} to {r['high']:.3g})" if r else "" for r in ratios),
        "" if of_floor is None else f"{of_floor:.1%}",
        str(row.get("kernels", "")),
        "" if peak is None else f"{peak / 2**20:.0f}",
    ]


def _clocks(clocks: Sequence[Mapping[str, float | None]]) -> str:
    """Least and largest of each."""
    spans = []
    for key in clocks[0]:
        values = [value for each in clocks if (value := each[key]) is not None]
        if values:
            spans.append(f"{key} {min(values):g} to {max(values):g}")
    return ", ".join(spans)


def profile(result: Mapping[str, Any]) -> Iterator[str]:
    """The kernels that take most of a step."""
    rates, rows = result["rates"], result["rows"]
    yield (
        f"{result['setting']}, {result['name']}: {rates['wall_ms']:.4g} ms a step, "
        f"{rates['busy_ms']:.4g} ms of it busy, {rates['teraflop_per_second']:.3g} TFLOP/s"
    )
    yield ""
    yield from _table(
        ("kernel", "calls", "ms a step", "share", "µs each"),
        (
            (f"`{row['name'][:70]}`", f"{row['calls']:g}", f"{row['ms']:.4f}",
             f"{row['ms'] / rates['busy_ms']:.1%}", f"{1e3 * row['ms'] / row['calls']:.2f}")
            for row in rows[:_ROWS]
        ),
    )  # fmt: skip
    if len(rows) > _ROWS:
        yield f"\nand {len(rows) - _ROWS} more"


def kernels(result: Mapping[str, Any]) -> Iterator[str]:
    """Timed kernels beside eager, or compiled ones."""
    rows = result["kernels"]
    if "triton_us" in rows[0]:
        yield from _table(
            ("prompts, points, width, heads", "", "loop", "eager µs", "triton µs", "ratio"),
            (
                (", ".join(map(str, row["shape"])), row["precision"], row["what"],
                 f"{row['eager_us']:.1f}", f"{row['triton_us']:.1f}",
                 f"{row['eager_us'] / row['triton_us']:.2f}")
                for row in rows
            ),
        )  # fmt: skip
        return
    keys = ("name", "capability", "precision", "warps", "registers", "shared", "loop_local")
    yield from _table(keys, ([str(row[key]) for key in keys] for row in rows))


def parity(result: Mapping[str, Any]) -> Iterator[str]:
    """Late losses of each variant over those of the base, and early differences, seed by seed."""
    seeds = len(result["losses"][result["base"]])
    yield f"Base: {result['base']}, {seeds} seeds; losses over steps {result['late']}"
    yield ""
    rows = []
    for name, found in result["summary"].items():
        late = list(found["late_mean_loss_ratio"].values())
        early = list(found["early_median_relative_difference"].values())
        if late:
            each = ", ".join(f"{value:.4g}" for value in late)
            rows.append((name, f"{fmean(late):.4g}", each, f"{median(early):.2g}"))
    heads = ("variant", "mean late loss over the base's", "seed by seed", "early difference")
    yield from _table(heads, rows)
    yield ""
    for training, message in result["failures"].items():
        yield f"- {training} failed: {message}"


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    for row in (heads, ["---"] * len(heads), *rows):
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"
