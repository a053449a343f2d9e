"""Probes of an experiment's runs.

The entry of `settings`, one, is those of `python -m probing`, without `run`. The results are the
content of probing.json of each seed, in a list for each label.
"""

from __future__ import annotations

import shlex
from dataclasses import replace

from looplab.conf.build import build
from looplab.conf.mistakes import RunError
from looplab.evaluation import load_run
from looplab.probing.probe import probe, stored
from looplab.probing.report import by_layer
from looplab.probing.results import Probing
from looplab.probing.settings import ProbingSettings

from ...definition import words_of
from ...measuring import Measurement, Request


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
    panels = []
    for name in names:
        first = next(r for rs in probed.values() for r in rs if name in r["targets"])
        task = f"{first['task'].replace('_', ' ')}, d = {first['dims']}"
        title = f"{first['targets'][name]['label']}; {task}"
        file = f"probing-{name.replace('_', '-')}"
        panels.append(replace(by_layer(name, probed), name=file, title=title))
    return Measurement({"probing": probed} if probed else {}, panels, missing)
