"""The result of a search in its folder: trials.csv, result.json and figures/."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from reloop.conf.words import run_py
from reloop.evaluation.artefacts import show
from reloop.evaluation.remarks import shared
from reloop.evaluation.tables import Part, Table, document
from reloop.training.run_folder.files import write_bytes
from reloop.training.run_folder.run import run_folder

from ..named.pictures import draw_panels
from ..named.results import ExperimentResult, MemberResult, State
from .definition import Search, text_of
from .pictures import search_panels
from .results import best_first, best_table, counts, importances, remarks_on, trial_rows
from .study import Study, Trial

_FAILED = 5  # of the failed trials, whose reasons are shown
_STATES: Mapping[str, State] = {"done": "finished", "failed": "failed"}


def summarise(study: Study, failures: Sequence[str]) -> str:
    """Write the results of a search and return the text for the user. `failures` are the reasons
    why processes failed."""
    search, trials, shares = study.search, study.trials(), importances(study)
    rows = document([trial_rows(search, trials)], "csv")
    write_bytes(search.folder / "trials.csv", f"{rows}\n".encode())
    content = _result(search, trials, shares)
    pictures = draw_panels(content, search.folder / "figures", search.first.figures)
    show(search.folder / "result.json", "experiment", content, pictures)
    parts = _parts(search, trials, shares, failures)
    text = document(parts, search.first.tables.format)
    return f"\n{text}\n\n{search.folder}: trials.csv, result.json, figures/"


def _parts(
    search: Search, trials: Sequence[Trial], shares: Mapping[str, float], failures: Sequence[str]
) -> list[Part]:
    """Counts, the best trial's command, tables, and what failed."""
    done = best_first(trials)
    parts: list[Part] = [f"{search.name}: {counts(search, trials)}"]
    if done:
        parts += [
            f"best: trial {done[0].number}, {search.error_name} {done[0].error:.4g}",
            run_py(*search.words_of(done[0].values)),
            "", best_table(search, trials),
        ]  # fmt: skip
    if shares:
        table = [[key, f"{share:.2f}"] for key, share in shares.items()]
        note = f"by {len(done)} finished trials (fANOVA)"
        parts += ["", Table(["setting", "share of the error's variance"], table), note]
    pruned = [trial for trial in trials if trial.state == "pruned"]
    if pruned:
        numbers = ", ".join(str(trial.number) for trial in pruned)
        parts.append(f"pruned, their runs interrupted: {numbers}; trials.csv says at which step")
    parts += shared({f"trial {each.number}": remarks_on(search, each) for each in done})
    failed = [trial for trial in trials if trial.state == "failed"]
    parts += [f"trial {each.number} failed: {each.reason}" for each in failed[:_FAILED]]
    if len(failed) > _FAILED:
        parts.append(f"{len(failed) - _FAILED} more failed: see trials.csv")
    return [*parts, *(f"failed: {failure}" for failure in failures)]


def _result(
    search: Search, trials: Sequence[Trial], shares: Mapping[str, float]
) -> ExperimentResult:
    """The search as pictures and the report read it."""
    members = [member for trial in trials for member in _members(search, trial)]
    running = [trial for trial in trials if trial.state == "running"]
    missing = [f"trial {each.number}, {text_of(each.values)}: not ended" for each in running]
    if (left := search.trials - len(trials)) > 0:
        missing.append(f"{left} of {search.trials} trials: not begun")
    return {
        "experiment": search.folder.name,
        "title": f"search {search.name}",
        "source": "a search of your own",
        "scale": search.first.scale,
        "command": run_py(*search.words),
        "members": members,
        "panels": search_panels(search, trials, shares),
        "verdicts": [],
        "missing": missing,
    }


def _members(search: Search, trial: Trial) -> list[MemberResult]:
    """The runs of a trial; none for settings that cannot be trained."""
    try:
        configs = search.configs(trial.values)
    except ValueError:
        return []
    notes = remarks_on(search, trial) if trial.error is not None else []
    if trial.reason:
        notes.append(f"{trial.state}: {trial.reason}")
    found = []
    for config in configs:
        folder = run_folder(config)
        member: MemberResult = {
            "label": f"trial {trial.number}: {text_of(trial.values)}",
            "run": str(folder.path),
            "words": search.words_of(trial.values, config.seed),
            "seed": config.seed,
            "step": int(folder.status()["step"]),
            "steps": config.training.steps,
            "state": _STATES.get(trial.state, "unfinished"),
            "remarks": notes,
        }
        found.append(member)
    return found
