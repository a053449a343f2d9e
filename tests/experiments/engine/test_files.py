"""The files of conf/experiment/ that are measured by other commands: they load at every scale."""

from __future__ import annotations

import pytest

from looplab.conf.build import build
from looplab.experiments.definition import (
    ALSO_UNFINISHED,
    RUN_MEASURES,
    load,
    members_of,
    names,
    words_of,
)
from looplab.openml_eval.settings import asked
from looplab.probing.settings import ProbingSettings

NOT_OF_COMMANDS = ("evaluation", *(set(RUN_MEASURES) - set(ALSO_UNFINISHED)))
MEASURED = [name for name in names() if load(name).measure not in NOT_OF_COMMANDS]
CASES = [(name, scale) for name in MEASURED for scale in load(name).scales]


def test_every_published_figure_has_a_file() -> None:
    figures = {f"stability_fig{number}" for number in range(2, 10)}
    assert figures | {"fully_looped_table1", "iso_depth", "fig08", "table2"} <= set(MEASURED)


@pytest.mark.parametrize(("name", "scale"), CASES)
def test_its_settings_are_the_commands(name: str, scale: str) -> None:
    experiment = load(name)
    at_scale = experiment.at(scale)
    members = members_of(experiment, scale)
    labels = {member.label for member in members}
    assert "" not in labels
    if experiment.measure == "iso_depth":
        assert not at_scale.settings
        return
    (entry,) = at_scale.settings
    if experiment.measure in ALSO_UNFINISHED:
        near = entry.get("figure") in ("toy", "norms", "cosines", "changes")
        assert near != bool(members)
    elif experiment.measure == "tables":
        settings, configs = asked(words_of(entry))
        assert set(configs) == set(settings.model) == {"looped", "standard"}
        assert {config.scale for config in configs.values()} == {scale}
    else:
        assert experiment.measure == "probes"
        assert labels == {"looped", "standard"}
        build(ProbingSettings, {**entry, "run": "runs/x"})


@pytest.mark.parametrize("scale", ["small", "medium", "paper"])
def test_figures_of_one_measurement_share_it(scale: str) -> None:
    """What one of them measures, the other finds."""
    first, second = (
        {key: value for key, value in load(name).at(scale).settings[0].items() if key != "panels"}
        for name in ("stability_fig4", "stability_fig9")
    )
    assert first == second
    runs = {
        name: {str(member.config) for member in members_of(load(name), scale)}
        for name in ("stability_fig6", "stability_fig7", "stability_fig8")
    }
    assert runs["stability_fig7"] <= runs["stability_fig6"] | runs["stability_fig8"]
    assert not runs["stability_fig6"] & runs["stability_fig8"]
