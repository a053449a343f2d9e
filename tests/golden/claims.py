"""The verdicts of every claim at the small scale, and what they were judged from: the sharp test of
a change to experiments, which must give the same numbers from the same errors, without training.

claims.json has under `verdicts` what is judged from these errors; under `measured` the day, the
code, the processor and the words that each experiment comes from; under `later` the estimates of
runs whose errors are not kept; under `not_measured` why neither decides a claim; and under `medium`
the verdicts at that scale. `claims_page.today` is
the verdict on each claim from all of these, which the docs show. A claim that is younger than its
experiment's evidence is judged from it, too: `add` puts its verdict beside the others.

Of a run the columns that a claim reads are kept of all prompts, each number with as few bits as
leave every column's mean what it is to 1e-4. What a later claim may ask is kept to .4 %, of the
first 320 prompts.

python run.py experiment=fig02 seeds=4 first_seed=4    # a clean commit, the small scale
python -m tests.golden.claims freeze experiment=fig02 seeds=4 first_seed=4 # with a line in the log
python -m tests.golden.claims add                      # only with a line in the log
python -m tests.golden.claims later experiment=fig02 scale=medium  # what run.py with it has left
python -m tests.golden.claims                          # judges anew; claims whose numbers differ
"""

import gzip
import hashlib
import io
import json
import lzma
import math
import sys
from collections.abc import Collection, Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from looplab.conf.build import config_from_mapping, config_to_mapping
from looplab.evaluation.evaluated_run import EvaluatedRun
from looplab.evaluation.groups import Group
from looplab.experiments.evidence import Evidence
from looplab.training.run_folder.files import read_json
from looplab.training.run_folder.run import versions
from tests.golden.claims_page import NUMBERS, VERDICTS, read_verdicts

HERE = Path(__file__).parent
EVIDENCE = HERE / "claims_evidence.json.gz"
ERRORS = HERE / "claims_errors.npz.xz"
# Of every run these are kept, all of their columns, of so many prompts; on shifted inputs the first
# alone.
_WIDE = ("model_at_b", "by_loop", "held_out")
_PROMPTS = 320
_BITS = 7  # the fewest significant ones that are kept: a number to .4 %, a mean far better
_Arrays = dict[str, NDArray[Any]]


class _Read(dict[str, NDArray[Any]]):
    """Arrays of a run that remember which of their columns were read; None: all."""

    def __init__(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        super().__init__({name: np.asarray(a, np.float32) for name, a in arrays.items()})
        self.read: dict[str, set[int] | None] = {}
        if "model_at_b" in self:  # judging leaves out runs that learned nothing by its last column
            self.read["model_at_b"] = {dict.__getitem__(self, "model_at_b").shape[1] - 1}

    def __getitem__(self, name: str) -> NDArray[Any]:
        self.read[name] = None
        return super().__getitem__(name)

    def note(self, name: str, columns: set[int] | None) -> None:
        """These columns were read."""
        known = self.read.setdefault(name, set())
        self.read[name] = None if columns is None or known is None else known | columns


class _Stacked(np.ndarray[Any, Any]):
    """Arrays of several runs [seeds, prompts, columns], of which a column read as [..., 3] is noted
    as such, and anything else as all of them."""

    members: list[EvaluatedRun]
    name: str

    def __getitem__(self, index: Any) -> Any:
        one = isinstance(index, tuple) and len(index) == 2 and index[0] is ...
        number = index[1] if one and isinstance(index[1], int) else None
        self._note(None if number is None else {number % self.shape[-1]})
        return np.asarray(self)[index]

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        self._note(None)
        plain = [np.asarray(each) if isinstance(each, _Stacked) else each for each in inputs]
        return getattr(ufunc, method)(*plain, **options)

    def _note(self, columns: set[int] | None) -> None:
        for member in self.members:
            assert isinstance(member.arrays, _Read)
            member.arrays.note(self.name, columns)


_errors = Group.errors


def _noting_errors(of: Group[EvaluatedRun], name: str = "model_at_b") -> Any:
    """`Group.errors`, whose reader's columns are noted."""
    if not all(isinstance(member.arrays, _Read) for member in of.runs):
        return _errors(of, name)
    before = [dict(member.arrays.read) for member in of.runs]  # type: ignore[attr-defined]
    stacked = _errors(of, name).view(_Stacked)
    stacked.members, stacked.name = [*of.runs], name
    for member, read in zip(of.runs, before, strict=True):
        member.arrays.read = read  # type: ignore[attr-defined]
    return stacked


def freeze(words: list[str]) -> None:
    """Put into the three files what the command `run.py experiment=… scale=small` with these words
    has left in its folder, in place of what they had of these experiments.

    Raises RunError where one of them is not finished.
    """
    Group.errors = _noting_errors  # type: ignore[assignment, method-assign]
    from looplab.conf.mistakes import RunError
    from looplab.conf.words import settings_from_words
    from looplab.experiments import engine
    from looplab.experiments.claims import claims_of
    from looplab.experiments.judge import judge
    from looplab.experiments.many_runs import progress
    from looplab.experiments.settings import ExperimentSettings

    evidence, content, arrays = _frozen()
    settings = settings_from_words(ExperimentSettings, [*words, "action=figure"])
    settings.check()
    for experiment in settings.experiments:
        members = settings.members(experiment)
        if any(progress(member.config).state != "finished" for member in members):
            raise RunError(f"{experiment.name}: not every training is finished")
        runs = [engine.evaluated(member, {}) for member in members]
        answer = engine._answer(experiment, settings, runs)
        if answer.missing:
            raise RunError(f"{experiment.name}: {answer.missing[0]}")
        reading = [EvaluatedRun(**(vars(run) | {"arrays": _Read(run.arrays)})) for run in runs]
        found = Evidence(reading, answer.results)
        for claim in claims_of(experiment).values():
            judge(claim, found, scale="small", command="")
        evidence[experiment.name] = {
            "claims": list(experiment.claims),
            "members": [_plain(run, arrays) for run in reading],
            "results": answer.results,
        }
        folders = [Path(run.path) for run in runs]
        made_with = [read_json(folder / "environment.json") or {} for folder in folders]
        made_with.append(versions())  # of an experiment that trains nothing
        content["measured"][experiment.name] = {
            "words": [word for word in words if not word.startswith(("experiment=", "folder="))],
            "date": date.today().isoformat(),
            "git_commit": made_with[0]["git_commit"],
            "torch": made_with[0]["torch"],
            "processor": torch.backends.cpu.get_cpu_capability(),
            "weights": {folder.name: _weights(folder) for folder in folders},
        }
        if settings.first_seed:
            # The lines of these claims were set before there were results of these seeds.
            content["measured"][experiment.name]["asked"] = list(experiment.claims)
        # What is measured now takes the place of what was not.
        for key in ("later", "not_measured"):
            for name in experiment.claims:
                content[key].pop(name, None)
        print(f"{experiment.name}: {len(runs)} runs", flush=True)
    EVIDENCE.write_bytes(gzip.compress(json.dumps(evidence).encode(), mtime=0))
    _write_errors(_still_read(evidence, arrays))
    content["verdicts"] = {verdict["claim"]: verdict for verdict in verdicts()}
    VERDICTS.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def add() -> None:
    """Put the verdicts on new claims into claims.json, at the place of their experiment, and take
    out what there is of claims that are gone; the others stay as they are."""
    from looplab.experiments.claims import all_claims

    content = read_verdicts()
    for key in ("later", "not_measured", "medium"):
        kept = content[key].items()
        content[key] = {name: row for name, row in kept if name in all_claims()}
    found = {verdict["claim"]: verdict for verdict in verdicts()}
    content["verdicts"] = {name: content["verdicts"].get(name, found[name]) for name in found}
    VERDICTS.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def add_estimates(words: list[str]) -> None:
    """Put into claims.json what `run.py experiment=…` with these words has left in its result: of
    the small scale, with runs whose errors are not kept, in place of what there is `later`; of
    another scale under its name."""
    from looplab.conf.mistakes import RunError
    from looplab.conf.words import settings_from_words
    from looplab.experiments.settings import ExperimentSettings

    content = read_verdicts()
    settings = settings_from_words(ExperimentSettings, [*words, "action=figure"])
    kept = content["later" if settings.scale == "small" else settings.scale]
    for experiment in settings.experiments:
        path = settings.result_folder(experiment) / "result.json"
        result = read_json(path)
        if result is None:
            raise RunError(f"{experiment.name}: there is no {path}")
        # A claim whose text is another experiment's is judged there.
        own = {name for name, text in experiment.claims.items() if not isinstance(text, str)}
        measured = [row for row in result["verdicts"] if row["mean"] is not None]
        measured = [row for row in measured if row["claim"] in own]
        made = {"experiment": experiment.name, "date": date.today().isoformat()}
        if settings.first_seed:
            made["first_seed"] = str(settings.first_seed)
        for row in measured:
            numbers = {key: row[key] for key in (*NUMBERS, "seeds", "steps", "verdict")}
            kept[row["claim"]] = made | numbers
            content["not_measured"].pop(row["claim"], None)
        print(f"{experiment.name}: {len(measured)} claims at the {settings.scale} scale")
    VERDICTS.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def _still_read(evidence: dict[str, Any], arrays: _Arrays) -> _Arrays:
    """The arrays that a run of the evidence has."""
    keys = set[str]()
    for experiment in evidence.values():
        for member in experiment["members"]:
            keys |= {each["key"] for each in member["arrays"].values()}
            keys |= {*member["wide"].values()}
    return {key: array for key, array in arrays.items() if key in keys}


def _frozen() -> tuple[dict[str, Any], dict[str, Any], _Arrays]:
    """What the three files hold: the evidence by experiment, the verdicts' file, the arrays."""
    return json.loads(gzip.decompress(EVIDENCE.read_bytes())), read_verdicts(), _read_errors()


def _read_errors() -> _Arrays:
    """The kept arrays by key."""
    with np.load(io.BytesIO(lzma.decompress(ERRORS.read_bytes()))) as arrays:
        return {key: array.T for key, array in arrays.items()}


def _write_errors(arrays: _Arrays) -> None:
    """Keep these arrays column by column, whose errors are alike; xz, told of numbers of two bytes,
    takes a fifth less than a zip."""
    buffer = io.BytesIO()
    by_column = {key: np.ascontiguousarray(array.T) for key, array in arrays.items()}
    np.savez(buffer, **by_column)  # type: ignore[arg-type]
    numbers = {"id": lzma.FILTER_LZMA2, "preset": 6, "lc": 2, "lp": 1, "pb": 1}
    ERRORS.write_bytes(lzma.compress(buffer.getvalue(), filters=[numbers]))


def frozen_evidence(*, wide: bool = False) -> Iterator[tuple[str, list[str], Evidence]]:
    """Each experiment by name, its claims, but for those that are gone, and what they are judged
    from; `wide`: all columns of the first prompts in place of the read ones of all."""
    from looplab.experiments.claims import all_claims

    evidence = json.loads(gzip.decompress(EVIDENCE.read_bytes()))
    arrays = _read_errors()
    for experiment, parts in sorted(evidence.items()):
        members = [_evaluated_run(each, arrays, wide=wide) for each in parts["members"]]
        frozen = [name for name in parts["claims"] if name in all_claims()]
        names = [*frozen, *_added(experiment, frozen)]
        yield experiment, names, Evidence(members, _results(experiment, parts["results"]))


def _added(experiment: str, frozen: Collection[str]) -> Iterator[str]:
    """The experiment's claims that are younger than its evidence, but for those of other runs."""
    from looplab.experiments.definition import load

    content = read_verdicts()
    for name in load(experiment).claims:
        of_other_runs = name in content["later"] or name in content["not_measured"]
        if name not in frozen and (name in content["verdicts"] or not of_other_runs):
            yield name


def _results(experiment: str, kept: Mapping[str, Any]) -> Mapping[str, Any]:
    """The results by measure; until November 2026 residual_scaling was that of several figures."""
    from looplab.experiments.definition import load

    results = dict(kept)
    if "residual_scaling" in results:
        results[load(experiment).measure] = results.pop("residual_scaling")
    return results


def verdicts() -> Iterator[dict[str, Any]]:
    """The verdicts of today's code from the frozen evidence; of a claim of several experiments that
    of the first. A claim that reads columns which are not kept of all prompts is judged from the
    first ones."""
    judged = set[str]()
    of_first_prompts: dict[str, Evidence] = {}  # by experiment; made where a claim wants it
    for experiment, names, found in frozen_evidence():
        for name in names:
            if name in judged:
                continue
            judged.add(name)
            verdict = _verdict(name, found)
            if verdict["verdict"] == "not measured":
                if not of_first_prompts:
                    wide = frozen_evidence(wide=True)
                    of_first_prompts = {each: evidence for each, _, evidence in wide}
                verdict = _verdict(name, of_first_prompts[experiment])
            yield verdict


def _verdict(name: str, evidence: Evidence) -> dict[str, Any]:
    """The verdict on a claim, its numbers and seeds; the `reason` of one that is not measured."""
    from looplab.experiments.claims import find_claim
    from looplab.experiments.judge import judge

    judged = judge(find_claim(name), evidence, scale="small", command="")
    known = judged.plain()
    verdict = {key: known[key] for key in ("claim", "verdict", *NUMBERS, "seeds")}
    if judged.verdict == "not measured":
        verdict["reason"] = judged.note.partition("; left out")[0]
    return verdict


def differences() -> list[str]:
    """The claims whose verdict or seeds are others, or whose numbers differ by more than 1e-9."""
    frozen = read_verdicts()["verdicts"]
    found = {verdict["claim"]: verdict for verdict in verdicts()}
    lines = [f"{name}: is gone" for name in frozen if name not in found]
    for name, verdict in found.items():
        was = frozen.get(name)
        if was is None:
            lines.append(f"{name}: is new")
            continue
        is_same = all(_same(verdict[key], was[key]) for key in NUMBERS)
        if not is_same or any(verdict[key] != was[key] for key in ("verdict", "seeds")):
            lines.append(f"{name}: {verdict} was {was}")
    return lines


def _same(ours: float | None, theirs: float | None) -> bool:
    if ours is None or theirs is None:
        return ours is theirs
    return math.isclose(ours, theirs, rel_tol=1e-9, abs_tol=1e-12)


def _plain(run: EvaluatedRun, arrays: _Arrays) -> dict[str, Any]:
    """A run as plain values; what was read of its arrays is put into `arrays`, each once, and so is
    what a later claim may read."""
    assert isinstance(run.arrays, _Read)
    kept: dict[str, Any] = {}
    for name, columns in run.arrays.read.items():
        array = dict.__getitem__(run.arrays, name)
        which = None if columns is None or array.ndim < 2 else sorted(columns)
        part = array if which is None else array[:, which]
        key = _put(_shortened(part), arrays)
        kept[name] = {"key": key, "columns": which, "width": array.shape[-1]}
    whole = {name for name, each in kept.items() if each["columns"] is None}
    wide = {
        name: _put(rounded(array[:_PROMPTS]), arrays)
        for name, array in run.arrays.items()
        if (name in _WIDE or name.endswith("/model_at_b")) and name not in whole
    }
    return {
        "label": run.label,
        "config": config_to_mapping(run.config),
        "step": run.step,
        "labels": run.labels,
        "arrays": kept,
        "wide": wide,
    }


def _shortened(array: NDArray[Any]) -> NDArray[Any]:
    """The array with the fewest significant bits at which the mean of each column stays what it is
    to 1e-4; all 24 of its numbers otherwise."""
    before = array.mean(0, dtype=np.float64)
    for bits in range(_BITS, 24):
        short = rounded(array, bits)
        if np.allclose(short.mean(0, dtype=np.float64), before, rtol=1e-4, atol=0.0):
            return short
    return array


def rounded(array: NDArray[Any], bits: int = _BITS) -> NDArray[Any]:
    """The array with so many significant bits, in float16 where this holds them all: xz makes a
    third less of it."""
    mantissa, exponent = np.frexp(array.astype(np.float64))
    steps = 2.0**bits
    short = np.ldexp(np.round(mantissa * steps) / steps, exponent).astype(np.float32)
    with np.errstate(over="ignore"):
        half = short.astype(np.float16)
    return half if np.array_equal(half, short, equal_nan=True) else short


def _put(array: NDArray[Any], arrays: _Arrays) -> str:
    """The key under which an array stands in `arrays`: a digest of its numbers and its shape."""
    array = np.ascontiguousarray(array)
    key = hashlib.sha256(array.tobytes() + str(array.shape).encode()).hexdigest()[:16]
    arrays[key] = array
    return key


def _evaluated_run(
    plain: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], *, wide: bool
) -> EvaluatedRun:
    """The run again; columns that were not read are NaN."""
    found: _Arrays = {}
    for name, each in plain["arrays"].items():
        part = arrays[each["key"]].astype(np.float32)
        if each["columns"] is not None:
            whole = np.full((len(part), each["width"]), math.nan, np.float32)
            whole[:, each["columns"]] = part
            part = whole
        found[name] = part[:_PROMPTS] if wide else part
    if wide:
        found |= {name: arrays[key].astype(np.float32) for name, key in plain["wide"].items()}
    config = config_from_mapping(plain["config"])
    return EvaluatedRun(plain["label"], config, plain["step"], found, plain["labels"])


def _weights(path: Path) -> str:
    """The sha256 of a run's last checkpoint's tensors."""
    (*_, last) = sorted((path / "checkpoints").glob("*.safetensors"))
    return hashlib.sha256(last.read_bytes()).hexdigest()


def main(words: list[str]) -> int:
    """Carry out the command; the exit code: 1 where numbers differ."""
    if words[:1] == ["freeze"]:
        freeze(words[1:])
    elif words[:1] == ["later"]:
        add_estimates(words[1:])
    elif words == ["add"]:
        add()
    lines = differences()
    print("\n".join(lines) or "every number and verdict is the frozen one")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
