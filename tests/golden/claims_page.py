"""How claims stand at the small scale, by claims.json, which `tests.golden.claims` writes, and the
pages that say so: the tables of docs/claims.md, the counts of README, and the tables of the papers'
pages, where each statement has a row. And docs/results.md, each of whose other numbers is read from
a file of docs/figures: `filled` makes what stands between a comment that names the number, and
`<!-- to here -->`. No torch here.

<!-- value: paper_sparse_linear error_by_examples model_at_b mean -->   of docs/figures: a curve's
                                                    mean over x, or its value with interval at an x
<!-- table: paper_sparse_linear error_by_examples 5 10 40 -->    its panel's curves at these x
<!-- claim: fig03_tied_grows -->                                 an estimate that `today` has

python -m tests.golden.claims_page     # writes them anew
"""

import json
import math
import re
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, get_args

from looplab.conf.files import read_values
from looplab.evaluation.statistics import Estimate
from looplab.evaluation.verdict import Verdict, VerdictName
from looplab.experiments.claims import all_claims, decide, find_claim
from looplab.experiments.definition import load, names
from looplab.show.panel import Curve, Panel
from looplab.show.verdicts import (
    count_text,
    estimate_text,
    heading,
    line_text,
    published_text,
    statements,
)

HOME = Path(__file__).parents[2]  # the project
RESULTS = HOME / "docs" / "results.md"
_MADE = r"(<!-- (value|table|claim): (.*?) -->)(.*?)(<!-- to here -->)"
_ROUNDING = 1e-9  # an error below it is that of the arithmetic
VERDICTS = Path(__file__).with_name("claims.json")
NUMBERS = ("mean", "low", "high")
PAPERS = {
    "arXiv 2311.12424": ("In-context learning with looped transformers", "looped_transformers"),
    "arXiv 2606.18524": ("Residual scaling", "residual_scaling"),
    "arXiv 2604.21106": ("Iso-depth", "iso_depth"),
    "arXiv 2605.18797": ("Fully looped transformers", "fully_looped"),
}
# How many statements of each a number can decide, as counted by hand: ICL-1 to ICL-82, and so on.
DECIDABLE = {"ICL": 82, "RES": 46, "ISO": 17, "FLT": 40}
_SUITE, _OTHERS = "this suite", "other papers"
_CLAIMS = (
    "| command `python run.py experiment=…` "
    "| claim | published | ours (90 %) | line | seeds | verdict |"
)
_STATEMENTS = (
    "| statement | what the paper says | published | ours at the small scale (90 %) | seeds "
    "| verdict |"
)
_AT_MEDIUM = " at the medium scale |"
_BY_PAPER = (
    "| paper | statements | hold | fail | not settled | not measured "
    "| want the paper's scale | without a claim |"
)
_CONTRADICTED = (
    "| statement | what the paper says | ours (90 %) of the claims that fail | seeds "
    "| the reason, as we think |"
)
_WITHOUT = "| statement | what the paper says | what a claim lacks |"
_MEDIUM_MODELS = (
    "Of models that ship with the project, of one seed each, so that an interval is over prompts "
    "alone: `python run.py experiment=fig02,fig06,fig10,fig15,fig16,iterates scale=medium`."
)
_MEDIUM = (
    "| statement | claim | line | small (90 %) | verdict | medium (90 %) | seeds | steps "
    "| verdict |"
)
_RUNS = "| experiment | seeds | measured | commit | processor |"
_ESTIMATES = "| experiment | seeds | measured |"
_LATER = (
    "Of these runs the estimates alone are kept. Where an experiment is in both tables, this one's "
    "verdicts count."
)
_CHANGED = "| before | its line | its verdict | now | source | line | verdict |"


def read_verdicts() -> dict[str, Any]:
    """What claims.json holds."""
    return dict(json.loads(VERDICTS.read_text(encoding="utf-8")))


def today() -> dict[str, dict[str, Any]]:
    """By claim, in the order of experiments: the `experiment`, `mean`, `low`, `high` (None where
    there is none), `seeds`, `verdict` and `reason` why it is not measured."""
    content, rows = read_verdicts(), dict[str, dict[str, Any]]()
    for experiment in names():
        for name in load(experiment).claims:
            claim = find_claim(name)
            row: dict[str, Any] = dict.fromkeys(NUMBERS)
            row |= {"experiment": experiment, "seeds": 0}
            if claim.paper_scale:
                row |= {"verdict": "paper scale", "reason": claim.paper_scale}
            elif name in content["later"]:
                row |= content["later"][name]
                low = -math.inf if row["low"] is None else row["low"]
                high = math.inf if row["high"] is None else row["high"]
                estimate = Estimate(row["mean"], low, high, row["seeds"])
                row.setdefault("verdict", decide(claim, estimate))
            elif name in content["not_measured"]:
                row |= {"verdict": "not measured", "reason": content["not_measured"][name]}
            else:
                row |= content["verdicts"][name]
            rows.setdefault(name, row)
    return rows


def on_fresh_seeds() -> set[str]:
    """The claims that are judged on seeds whose results were not known when their lines were set,
    nor when they were changed."""
    content = read_verdicts()
    measured = dict[str, str]()  # the day by claim
    for made in content["measured"].values():
        measured |= dict.fromkeys(made.get("asked", []), made["date"])
    for name, row in content["later"].items():
        measured.pop(name, None)
        if "first_seed" in row:
            measured[name] = row["date"]
    for before in read_values("old_claims").values():
        # Of the same day: the runs may have been made again after the line was changed.
        if before["now"] in measured and before.get("changed", "") >= measured[before["now"]]:
            del measured[before["now"]]
    return set(measured)


def rows() -> dict[str, Verdict]:
    """What each claim says and how it stands, by its name; the experiment is its `command`."""
    found = {}
    for name, row in today().items():
        own = {"claim": name, "command": row["experiment"], "note": row.get("reason", "")}
        found[name] = Verdict.read({**vars(all_claims()[name]), **row, **own})
    return found


def _count(found: Iterable[Verdict]) -> str:
    return count_text([row.verdict for row in found])


def _section(row: Verdict) -> str:
    paper = heading(row.source)
    return paper if paper in (*PAPERS, _SUITE) else _OTHERS


def _line(row: Verdict) -> str:
    if row.line_set == "before":
        return line_text(row)
    return f"{line_text(row)} (set after{', fresh seeds' * (row.claim in on_fresh_seeds())})"


def _lines_set(found: Iterable[Verdict]) -> str:
    """How many lines were set when a result was known, and how many of these have fresh seeds."""
    after = [row.claim for row in found if row.line_set == "after"]
    fresh = on_fresh_seeds().intersection(after)
    total = f"{len(after)} lines were set after a result was known"
    return f"{total}; {len(fresh)} of these claims are judged on seeds that came later"


def _table(head: str, lines: Iterable[str]) -> str:
    columns = head.count("|") - 1
    return "\n".join([head, "|---" * columns + "|", *lines])


def _claim(row: Verdict) -> str:
    said = f"{row.statement}: {row.sentence}" if row.statement else row.sentence
    reason = f" ({row.note})" if row.note else ""
    cells = [
        f"`{row.command}`",
        f"{said} *{row.quantity}*{reason}",
        published_text(row).replace("|", "/"),
        estimate_text(row.mean, row.low, row.high),
        _line(row),
        str(row.seeds or "–"),
        f"**{row.verdict}**",
    ]
    return f"| {' | '.join(cells)} |"


def _sections(found: list[Verdict]) -> list[str]:
    titles = {paper: f"{title} ({paper})" for paper, (title, _) in PAPERS.items()}
    titles |= {_SUITE: "Claims of this suite", _OTHERS: "Claims of other papers"}
    parts = []
    for section, title in titles.items():
        own = [row for row in found if _section(row) == section]
        parts += [f"## {title}", f"{_count(own)}.", _table(_CLAIMS, map(_claim, own))]
        if whole := statements(own):
            count = count_text([verdict for _, verdict, _, _ in whole])
            page = f"papers/{PAPERS[section][1]}.md#statement-by-statement"
            parts += [f"[Statement by statement]({page}): {count.replace('claim', 'statement')}."]
    return parts


def _of_paper(prefix: str, found: list[Verdict]) -> str:
    """A row for each statement of a paper, those without a claim too, in the order of numbers."""
    by_identity = {identity: verdict for identity, verdict, _, _ in statements(found)}
    medium = read_verdicts()["medium"]
    of_paper = [row for row in found if row.statement.startswith(f"{prefix}-")]
    has_medium = any(row.claim in medium for row in of_paper)
    lines = []
    for identity, statement in read_values("statements").items():
        if not identity.startswith(f"{prefix}-"):
            continue
        claims = [row for row in of_paper if row.statement == identity]
        published = dict.fromkeys(published_text(row) for row in claims if row.published)
        at_medium = []
        for row in claims:
            if row.claim in medium:
                name = f"`{row.claim}` " if len(claims) > 1 else ""  # some have no estimate there
                at_medium.append(name + _medium_text(medium[row.claim]))
        seeds = min((row.seeds for row in claims if row.seeds), default=0)
        cells = [
            identity,
            statement["says"],
            "<br>".join(published).replace("|", "/") or "–",
            _estimates_of(claims) or statement["without"],
            str(seeds or "–"),
            f"**{by_identity[identity]}**" if claims else "no claim",
        ]
        if has_medium:
            cells.append("<br>".join(at_medium) or "–")
        lines.append(f"| {' | '.join(cells)} |")
    return _table(f"{_STATEMENTS}{_AT_MEDIUM if has_medium else ''}", lines)


def _estimates_of(claims: Iterable[Verdict]) -> str:
    """Each claim's name with its estimate and its line, or with the reason why there is none."""
    texts = []
    for row in claims:
        estimate = estimate_text(row.mean, row.low, row.high)
        known = estimate if row.mean is not None else row.note
        texts.append(f"`{row.claim}` {known}, line {_line(row)}")
    return "<br>".join(texts)


def _medium_text(kept: Mapping[str, Any]) -> str:
    return f"{estimate_text(*(kept[key] for key in NUMBERS))} {kept['verdict']}"


def _by_paper(found: list[Verdict]) -> str:
    """A row for each paper: how many of its statements stand how."""
    counts = {prefix: Counter[str]() for prefix in DECIDABLE}
    for identity, verdict, _, _ in statements(found):
        counts[identity.partition("-")[0]][verdict] += 1
    titles = [title for title, _ in PAPERS.values()]
    lines = []
    for title, (prefix, total) in zip(titles, DECIDABLE.items(), strict=True):
        stand = counts[prefix]
        cells = [str(stand[verdict]) for verdict in get_args(VerdictName)]
        without = total - stand.total()
        lines.append(f"| {title} ({prefix}) | {total} | {' | '.join(cells)} | {without} |")
    return _table(_BY_PAPER, lines)


def _contradicted(found: list[Verdict]) -> str:
    """A row for each statement that fails, with the claims that do."""
    known = read_values("statements")
    lines = []
    for identity, verdict, _, says in statements(found):
        failing = [row for row in found if row.statement == identity and row.verdict == "fails"]
        if verdict != "fails":
            continue
        seeds = min(row.seeds for row in failing)
        thought = known[identity].get("thought", "Not known.")
        lines.append(
            f"| {identity} | {says} | {_estimates_of(failing)} | {seeds or '–'} | {thought} |"
        )
    return _table(_CONTRADICTED, lines)


def _without() -> str:
    """A row for each statement that no claim judges, with the reason."""
    lines = [
        f"| {identity} | {statement['says']} | {statement['without']} |"
        for identity, statement in read_values("statements").items()
        if "without" in statement
    ]
    return _table(_WITHOUT, lines)


def _medium(found: dict[str, Verdict]) -> str:
    """A row for each claim that is measured at the medium scale, too."""
    lines = []
    for name, kept in read_verdicts()["medium"].items():
        row = found[name]
        cells = [row.statement or "–", f"`{name}`", _line(row)]
        cells += [estimate_text(row.mean, row.low, row.high), row.verdict]
        medium = estimate_text(*(kept[key] for key in NUMBERS))
        cells += [medium, str(kept["seeds"]), f"{kept['steps']:,}", kept["verdict"]]
        lines.append(f"| {' | '.join(cells)} |")
    return _table(_MEDIUM, lines)


def _runs() -> str:
    """A row for each experiment whose errors are kept: its seeds and the commit of its runs."""
    lines = []
    for experiment, made in sorted(read_verdicts()["measured"].items()):
        words = dict(word.split("=", 1) for word in made["words"])
        at_scale = load(experiment).at("small")
        of_settings = [given["seeds"] for given in at_scale.settings if "seeds" in given]
        own = at_scale.seeds if at_scale.runs or not of_settings else of_settings[0]
        first = int(words.get("first_seed", 0))
        number = int(words.get("seeds", own if isinstance(own, int) else len(own)))
        seeds = f"{first} to {first + number - 1}" if number > 1 else str(first)
        commit, _, dirty = made["git_commit"].partition("-")
        commit = f"{commit[:8]}-{dirty}" if dirty else commit[:8] or "–"
        cells = [f"`{experiment}`", seeds, made["date"], commit, made["processor"]]
        lines.append(f"| {' | '.join(cells)} |")
    return _table(_RUNS, lines)


def _estimates() -> str:
    """A row for each experiment of whose later runs the estimates alone are kept."""
    last_seeds: dict[tuple[str, str, int], int] = {}
    for row in read_verdicts()["later"].values():
        first = int(row.get("first_seed", 0))
        key = (row["experiment"], row.get("date", "–"), first)
        last = first + max(row["seeds"], 1) - 1
        last_seeds[key] = max(last, last_seeds.get(key, 0))
    lines = []
    for (experiment, day, first), last in sorted(last_seeds.items()):
        seeds = f"{first} to {last}" if last > first else str(first)
        lines.append(f"| `{experiment}` | {seeds} | {day} |")
    return _table(_ESTIMATES, lines)


def _changed(found: dict[str, Verdict]) -> str:
    lines = []
    for old, before in read_values("old_claims").items():
        row = found[before["now"]]
        cells = [old, before["line"], before["verdict"], row.claim]
        cells += [heading(row.source), _line(row), row.verdict]
        lines.append(f"| {' | '.join(cells)} |")
    known = {before["now"] for before in read_values("old_claims").values()}
    for name, row in found.items():
        if row.line_set == "after" and name not in known:
            cells = ["–", "–", "–", name, heading(row.source), _line(row), row.verdict]
            lines.append(f"| {' | '.join(cells)} |")
    return _table(_CHANGED, lines)


def _short(claims: list[Verdict]) -> str:
    """'Of 118 claims of four papers 71 hold at this size, 12 fail and
    35 are not settled, not measured or need the paper's scale'"""
    counts = Counter(row.verdict for row in claims)
    is_open = len(claims) - counts["holds"] - counts["fails"]
    decided = f"{counts['holds']} hold at this size, {counts['fails']} fail"
    open_ = f"{is_open} are not settled, not measured or need the paper's scale"
    return f"Of {len(claims)} claims of four papers {decided} and {open_}"


def _between(text: str, made: str, name: str = "counted") -> str:
    """The text with what stands between the markers of this name made anew."""
    pattern = rf"(<!-- {name} -->).*?(<!-- to here -->)"
    assert re.search(pattern, text, flags=re.S)
    return re.sub(pattern, lambda found: f"{found[1]}{made}{found[2]}", text, flags=re.S)


def _of_row(line: str, found: dict[str, Verdict], of_statements: Mapping[str, str]) -> str:
    """A row of a paper's page, its last cell the statements that its experiments judge by the
    verdict of all their claims, and the counts of claims of no statement."""
    named = re.findall(r"experiment=(\w+)", line)
    claims = [name for each in named for name in load(each).claims if name in found]
    if not line.startswith("| ") or not claims:
        return line
    own = [found[name] for name in dict.fromkeys(claims)]
    by_verdict: dict[str, list[str]] = {}
    for identity, _, _, _ in statements(own):
        by_verdict.setdefault(of_statements[identity], []).append(identity)
    texts = [f"{verdict}: {', '.join(names)}" for verdict, names in by_verdict.items()]
    if others := [row for row in own if not row.statement]:
        texts.append(f"of this suite's own claims {_count(others).partition(': ')[2]}")
    *cells, _, _ = line.split(" |")
    return f"{' |'.join(cells)} | {'; '.join(texts)} |"


def pages() -> dict[Path, str]:
    """The text of each page by its path."""
    found = rows()
    of_papers = [row for row in found.values() if _section(row) in PAPERS]
    whole = f"{_count(found.values())}; of the four papers' {_count(of_papers)}"
    every = list(found.values())
    parts = [f"\n{whole}.", f"{_lines_set(every)}.", _by_paper(every)]
    parts += ["## Statements that models of this size contradict"]
    parts += [_contradicted(every), "## The same claims at the medium scale"]
    parts += [_MEDIUM_MODELS, _medium(found), *_sections(every)]
    parts += ["## Statements without a claim", _without()]
    parts += ["## The runs of each experiment", _runs(), _LATER, _estimates()]
    parts += ["## Names, lines and verdicts that changed", _changed(found)]
    made = {
        HOME / "docs" / "claims.md": "\n\n".join(parts) + "\n",
        RESULTS: whole,
        HOME / "README.md": _short(of_papers),
    }
    by_page: dict[Path, dict[str, Verdict]] = {}  # without the claims of other pages' papers
    tables = {}
    for (paper, (_, page)), prefix in zip(PAPERS.items(), DECIDABLE, strict=True):
        path = HOME / "docs" / "papers" / f"{page}.md"
        own = [row for row in of_papers if _section(row) == paper]
        made[path] = _count(own)
        tables[path] = f"\n\n{_of_paper(prefix, every)}\n\n"
        others = PAPERS.keys() - {paper}
        by_page[path] = {name: row for name, row in found.items() if _section(row) not in others}
    of_statements = {identity: verdict for identity, verdict, _, _ in statements(every)}
    texts = {}
    for path, text in made.items():
        texts[path] = _between(path.read_text(encoding="utf-8"), text)
        if path in by_page:
            texts[path] = _between(texts[path], tables[path], "statements")
            lines = texts[path].split("\n")
            texts[path] = "\n".join(_of_row(line, by_page[path], of_statements) for line in lines)
    texts[RESULTS] = filled(texts[RESULTS], found)
    return texts


def filled(text: str, claims: Mapping[str, Verdict]) -> str:
    """The text with its numbers made anew."""

    def made(found: re.Match[str]) -> str:
        start, kind, words, _, end = found.groups()
        if kind == "claim":
            claim = claims[words]
            estimate = estimate_text(claim.mean, claim.low, claim.high)
            estimate = re.sub(r"\b0\.", ".", estimate)
            return f"{start}{estimate}{end}"
        name, panel, *rest = words.split()
        make = _panel_table if kind == "table" else _panel_value
        return f"{start}{make(_panel(name, panel), rest)}{end}"

    return re.sub(_MADE, made, text, flags=re.S)


def _panel(name: str, panel: str) -> Panel:
    kept = json.loads((HOME / "docs" / "figures" / f"{name}.json").read_text(encoding="utf-8"))
    (values,) = [each for each in kept["panels"] if each["name"] == panel]
    return Panel.read(values)


def _panel_value(panel: Panel, words: list[str]) -> str:
    name, at = words
    (curve,) = [each for each in panel.curves if each.name == name]
    if at == "mean":
        values = [value for value in curve.mean if value is not None]
        return _number(sum(values) / len(values))
    return _cell(panel, curve, float(at))


def _panel_table(panel: Panel, words: list[str]) -> str:
    rows = [["examples" if "examples" in panel.x_label else panel.x_label]]
    rows[0] += [curve.label for curve in panel.curves]
    rows += [["---"] * len(rows[0])]
    rows += [[x, *(_cell(panel, curve, float(x)) for curve in panel.curves)] for x in words]
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n" + "\n".join(lines) + "\n"


def _cell(panel: Panel, curve: Curve, x: float) -> str:
    """'.0405 (.0289 to .0551)'"""
    place = [*panel.x].index(x)
    mean = _number(curve.mean[place])
    if not curve.low or curve.low[place] is None or mean == "0":
        return mean
    return f"{mean} ({_number(curve.low[place])} to {_number(curve.high[place])})"


def _number(value: float | None) -> str:
    """Three digits, without the zero before the point."""
    assert value is not None
    return re.sub(r"^0\.", ".", f"{value:#.3g}" if abs(value) > _ROUNDING else "0")


def main() -> int:
    """Write the pages; the exit code."""
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
