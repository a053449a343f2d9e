"""The verdicts of every claim at the small scale, and what they were judged from: the sharp test of
a change to experiments, which must give the same numbers from the same errors, without training.

claims.json has under `verdicts` what is judged from these errors; under `later` the estimates of
runs with more seeds, or of other claims, whose errors are not kept; and under `not_measured` why
neither decides a claim. `today` is the verdict on each claim from all three, which the docs show.

python run.py experiment=all scale=small        # once, by the frozen commit
python -m tests.golden.claims freeze            # only with a line in the log
python -m tests.golden.claims                   # judges anew; the claims whose numbers differ
"""

import gzip
import hashlib
import json
import math
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from looplab.conf.build import config_from_mapping, config_to_mapping
from looplab.experiments import evidence as select
from looplab.experiments.claims import Evidence, Measured
from looplab.training.run_folder.run import versions

HERE = Path(__file__).parent
VERDICTS, EVIDENCE, ERRORS = (
    HERE / name for name in ("claims.json", "claims_evidence.json.gz", "claims_errors.npz")
)
_NUMBERS = ("mean", "low", "high")
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

    members: list[Measured]
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


_errors = select.errors


def _noting_errors(of: select.Group, name: str = "model_at_b") -> Any:
    """`select.errors`, whose reader's columns are noted."""
    if not all(isinstance(member.arrays, _Read) for member in of.members):
        return _errors(of, name)
    before = [dict(member.arrays.read) for member in of.members]  # type: ignore[attr-defined]
    stacked = _errors(of, name).view(_Stacked)
    stacked.members, stacked.name = of.members, name
    for member, read in zip(of.members, before, strict=True):
        member.arrays.read = read  # type: ignore[attr-defined]
    return stacked


def freeze(folder: str) -> None:
    """Add to the three files what `experiment=NAME scale=small` has left in a folder, of each
    experiment with claims that is finished there and not in them yet."""
    select.errors = _noting_errors  # before the claims import it
    from looplab.conf.mistakes import ConfigError, RunError
    from looplab.experiments import engine as perform
    from looplab.experiments.claims import find_claim, judge
    from looplab.experiments.engine import measured
    from looplab.experiments.many_runs import progress
    from looplab.experiments.settings import ExperimentSettings

    evidence, weights, arrays = _frozen()
    before = {*evidence}
    settings = ExperimentSettings(("all",), "figure", "small", folder=folder)
    for experiment in settings.experiments:
        if experiment.name in evidence or not experiment.claims:
            continue
        members = settings.members(experiment)
        if any(progress(member.config).state != "finished" for member in members):
            continue
        runs = [measured(member, {}) for member in members]
        try:
            measurement = perform._measured(experiment, settings, runs)
        except (ConfigError, RunError):
            continue
        if measurement.missing or not (runs or measurement.results):
            continue
        reading = [Measured(**(vars(run) | {"arrays": _Read(run.arrays)})) for run in runs]
        found = Evidence(reading, measurement.results)
        for name in experiment.claims:
            judge(find_claim(name), found, scale="small", command="")
        weights |= {Path(run.path).name: _weights(Path(run.path)) for run in runs}
        evidence[experiment.name] = {
            "claims": list(experiment.claims),
            "members": [_plain(run, arrays) for run in reading],
            "results": measurement.results,
        }
        print(f"{experiment.name}: {len(runs)} runs", flush=True)
    EVIDENCE.write_bytes(gzip.compress(json.dumps(evidence).encode(), mtime=0))
    np.savez_compressed(ERRORS, **arrays)  # type: ignore[arg-type]
    facts = {key: value for key, value in versions().items() if key not in ("command", "machine")}
    known = _content() if VERDICTS.exists() else {}
    fresh = {name for each in evidence.keys() - before for name in evidence[each]["claims"]}
    for key in ("later", "not_measured"):  # what is measured now takes the place of these
        known[key] = {name: row for name, row in known.get(key, {}).items() if name not in fresh}
    content = {
        **known,
        **facts,
        "processor": torch.backends.cpu.get_cpu_capability(),
        "weights": weights,
        "verdicts": {verdict["claim"]: verdict for verdict in verdicts()},
    }
    VERDICTS.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def _frozen() -> tuple[dict[str, Any], dict[str, str], _Arrays]:
    """What the files hold: evidence by experiment, sha256 of weights by run, arrays."""
    if not VERDICTS.exists():
        return {}, {}, {}
    weights = _content()["weights"]
    with np.load(ERRORS) as arrays:
        return json.loads(gzip.decompress(EVIDENCE.read_bytes())), weights, dict(arrays)


def _content() -> dict[str, Any]:
    return dict(json.loads(VERDICTS.read_text(encoding="utf-8")))


def frozen_evidence() -> Iterator[tuple[str, list[str], Evidence]]:
    """Each experiment, its claims and what they are judged from."""
    evidence = json.loads(gzip.decompress(EVIDENCE.read_bytes()))
    with np.load(ERRORS) as arrays:
        for experiment, parts in evidence.items():
            members = [_measured(each, arrays) for each in parts["members"]]
            yield experiment, parts["claims"], Evidence(members, parts["results"])


def verdicts() -> Iterator[dict[str, Any]]:
    """The verdicts of today's code from the frozen evidence."""
    from looplab.experiments.claims import find_claim, judge

    for _, names, found in frozen_evidence():
        for name in names:
            verdict = judge(find_claim(name), found, scale="small", command="")
            yield {"claim": name, **{key: verdict[key] for key in ("verdict", *_NUMBERS, "seeds")}}


def today() -> dict[str, dict[str, Any]]:
    """By claim, in the order of experiments: the `experiment`, `mean`, `low`, `high` (None where
    there is none), `seeds`, `verdict` and `reason` why it is not measured."""
    from looplab.experiments.claims import Estimate, decide, find_claim
    from looplab.experiments.definition import load, names

    content, rows = _content(), dict[str, dict[str, Any]]()
    for experiment in names():
        for name in load(experiment).claims:
            claim = find_claim(name)
            row: dict[str, Any] = dict.fromkeys(_NUMBERS)
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


def differences() -> list[str]:
    """The claims whose verdict is another one, or whose numbers differ by more than 1e-9."""
    frozen = _content()["verdicts"]
    found = {verdict["claim"]: verdict for verdict in verdicts()}
    lines = [f"{name}: is gone" for name in frozen if name not in found]
    for name, verdict in found.items():
        was = frozen.get(name)
        if was is None:
            lines.append(f"{name}: is new")
        elif verdict["verdict"] != was["verdict"] or not all(
            _same(verdict[key], was[key]) for key in _NUMBERS
        ):
            lines.append(f"{name}: {verdict} was {was}")
    return lines


def _same(ours: float | None, theirs: float | None) -> bool:
    if ours is None or theirs is None:
        return ours is theirs
    return math.isclose(ours, theirs, rel_tol=1e-9, abs_tol=1e-12)


def _plain(run: Measured, arrays: _Arrays) -> dict[str, Any]:
    """A run as plain values; what was read of its arrays is put into `arrays`, each once."""
    assert isinstance(run.arrays, _Read)
    kept: dict[str, Any] = {}
    for name, columns in run.arrays.read.items():
        array = dict.__getitem__(run.arrays, name)
        which = None if columns is None or array.ndim < 2 else sorted(columns)
        part = np.ascontiguousarray(array if which is None else array[:, which])
        key = hashlib.sha256(part.tobytes() + str(part.shape).encode()).hexdigest()[:16]
        arrays[key] = part
        kept[name] = {"key": key, "columns": which, "width": array.shape[-1]}
    config = config_to_mapping(run.config)
    return {"label": run.label, "config": config, "step": run.step, "labels": run.labels,
            "arrays": kept}  # fmt: skip


def _measured(plain: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Measured:
    """The run again; columns that were not read are NaN."""
    found: _Arrays = {}
    for name, each in plain["arrays"].items():
        part = arrays[each["key"]]
        if each["columns"] is not None:
            whole = np.full((len(part), each["width"]), math.nan, np.float32)
            whole[:, each["columns"]] = part
            part = whole
        found[name] = part
    config = config_from_mapping(plain["config"])
    return Measured(plain["label"], config, plain["step"], found, plain["labels"])


def _weights(path: Path) -> str:
    """The sha256 of a run's last checkpoint's tensors."""
    (*_, last) = sorted((path / "checkpoints").glob("*.safetensors"))
    return hashlib.sha256(last.read_bytes()).hexdigest()


def main(words: list[str]) -> int:
    """Carry out the command; the exit code: 1 where numbers differ."""
    if words[:1] == ["freeze"]:
        freeze(words[1] if len(words) > 1 else "runs")
    lines = differences()
    print("\n".join(lines) or "every number and verdict is the frozen one")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
