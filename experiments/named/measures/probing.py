"""Probes of an experiment's runs.

The entry of `settings`, one, is those of `python -m probing`, without `run`. The results are the
content of probing.json of each seed, in a list for each label.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

import numpy as np

from looplab.conf.build import build
from looplab.conf.mistakes import RunError
from looplab.evaluation import load_run
from looplab.evaluation.bootstrap import Interval, numbers
from looplab.evaluation.panel import Curve, Panel, padded, without_interval
from looplab.evaluation.results import unit
from looplab.probing.probe import probe, stored
from looplab.probing.report import error_label
from looplab.probing.results import Probing
from looplab.probing.settings import ProbingSettings

from ...measuring import Measurement, Request
from ..members import words_of

_LEAST, _MOST = "control, {}", "knowing nothing"


def measure(request: Request) -> Measurement:
    """Probe each run, or read what is stored in its folder; a run that cannot be probed is said in
    `missing`. Raises ConfigError for invalid settings."""
    given = request.only_settings("the probes", "run", why="its own runs are probed")
    probed: dict[str, list[Probing]] = {}
    missing = []
    for measured in request.runs:
        settings = build(ProbingSettings, {**given, "run": measured.path})
        settings.check()
        what = f"probes of {measured.label}, seed {measured.config.seed}"
        try:
            run = load_run(measured.path)
            result = stored(run, settings) if request.stored_only else probe(run, settings)
        except RunError as error:
            missing.append(f"{what}: {error}")
            continue
        if result is None:
            words = ["python", "-m", "probing", f"run={measured.path}", *words_of(given)]
            missing.append(f"{what}: not measured yet: {shlex.join(words)}")
        else:
            probed.setdefault(measured.label, []).append(result)
    names = dict.fromkeys(name for rs in probed.values() for r in rs for name in r["targets"])
    panels = [_panel(name, probed) for name in names]
    return Measurement({"probing": probed} if probed else {}, panels, missing)


def _panel(name: str, labels: Mapping[str, Sequence[Probing]]) -> Panel:
    """The errors of probes by layer or loop, a curve for each label; the control's least errors as
    levels. The band of a label with several seeds covers each seed's own interval."""
    having = {
        label: [each for each in results if name in each["targets"]]
        for label, results in labels.items()
    }
    having = {label: results for label, results in having.items() if results}
    first = next(iter(having.values()))[0]
    length = max(len(r["targets"][name]["error"]["mean"]) for rs in having.values() for r in rs)
    curves, levels = [], dict[str, float]()
    for label, results in having.items():
        targets = [result["targets"][name] for result in results]
        parts = {
            part: np.array([numbers(padded(target["error"][part], length)) for target in targets])
            for part in ("mean", "low", "high")
        }
        interval = Interval(parts["mean"].mean(0), parts["low"].min(0), parts["high"].max(0))
        family = results[0]["family"]
        b = None if family == "standard" else results[0]["b"]
        curves.append(Curve.of(label, family, interval, b=b))
        if "published" in targets[0]:
            published = targets[0]["published"]
            means = numbers(padded(published["mean"], length))
            text = f"published: {published['label']}"
            curves.append(Curve.of(text, "published", without_interval(means)))
        least = [target["control_least"]["mean"] for target in targets if "control" in target]
        if least:
            levels[_LEAST.format(label)] = float(np.mean(least))
    levels[_MOST] = float(np.mean(first["targets"][name]["variance"]))
    units = dict.fromkeys(unit(result["family"]) for rs in having.values() for result in rs)
    task = f"{first['task'].replace('_', ' ')}, d = {first['dims']}"
    return Panel(
        f"probing-{name.replace('_', '-')}",
        f"{first['targets'][name]['label']}; {task}",
        f"{' or '.join(units)} (0: the read-in)",
        error_label(first, name),
        range(length),
        curves,
        levels=levels,
    )
