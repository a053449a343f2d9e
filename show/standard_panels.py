"""The pictures that an experiment's file asks for, as numbers."""

from collections.abc import Sequence

from looplab.conf.build import config_to_mapping, flatten, setting_of
from looplab.conf.in_words import in_words, labels_of_settings, name_in_words, task_in_words
from looplab.conf.schema import Config
from looplab.evaluation.evaluated_run import EvaluatedRun
from looplab.evaluation.groups import Group, grouped
from looplab.tasks import SHIFTS

from .builders import Labelled, examples_of, loops_of, values_of
from .panel import Panel, file_name
from .panel_spec import PanelSpec


def panels(specs: Sequence[PanelSpec], runs: Sequence[EvaluatedRun]) -> list[Panel]:
    """The panels of all pictures: one for each task among the runs, and for each value of the
    setting that the picture is split by."""
    drawn: list[Panel] = []
    for spec in specs:
        by_name: dict[str, list[EvaluatedRun]] = {}
        for run in runs:
            by_name.setdefault(_name(run.config, spec), []).append(run)
        for name, members in by_name.items():
            groups = grouped(members)
            labelled = list(zip(_labels(groups, spec.x), groups, strict=True))
            drawn += panels_of(spec, labelled, name, _title(members, spec.split))
    return drawn


def _name(config: Config, spec: PanelSpec) -> str:
    """The name of the panel that a run is drawn in."""
    words = config.task.name.replace("_", " ")
    if not config.task.is_text:
        words += f", d = {config.task.dims}"
    if spec.split:
        words += f", {in_words(spec.split, setting_of(config, spec.split))}"
    return f"{spec.kind}-{file_name(words)}"


def panels_of(spec: PanelSpec, groups: Sequence[Labelled], name: str, title: str) -> list[Panel]:
    """The panels of one picture of groups of one task: one, or one for each shifted input that all
    runs were read on."""
    if spec.kind == "by_examples":
        return [examples_of(groups, name, title)]
    if spec.kind == "by_loop":
        return [loops_of(groups, name, title)]
    if spec.kind == "by_value":
        return [values_of(groups, name, title, spec.x, name_in_words(spec.x))]
    shown = []
    for key, shift in SHIFTS.items():
        if all(f"{key}/model" in run.arrays for _, group in groups for run in group.runs):
            shown.append(examples_of(groups, f"{name}-{key}", f"{title}, {shift.label}", key))
    return shown


def _labels(groups: Sequence[Group[EvaluatedRun]], x: str) -> list[str]:
    """The label of each group, as its runs have it; where two would be one curve, which differ in
    more than the setting `x`, each with what sets it apart."""
    labels = [group.runs[0].label for group in groups]
    values = [setting_of(group.config, x) if x else None for group in groups]
    if len(set(zip(labels, values, strict=True))) == len(groups):
        return labels
    others = []  # the settings of each group, without x
    for group in groups:
        settings = flatten(config_to_mapping(group.config))
        # A file says task.sparsity for what a configuration holds as task.settings.sparsity.
        names = [name for name in settings if name.replace(".settings.", ".") != x]
        others.append({name: settings[name] for name in names})
    differences = labels_of_settings(others)
    return [f"{label}, {words}" for label, words in zip(labels, differences, strict=True)]


def _title(runs: Sequence[EvaluatedRun], split: str) -> str:
    """The functions of a panel's runs, and their value of the setting that it is split by."""
    config = runs[0].config
    dims = 0 if config.task.is_text else config.task.dims
    sparsity = config.task.settings.get("sparsity", 0)
    if any(run.config.task.settings.get("sparsity", 0) != sparsity for run in runs):
        sparsity = 0  # for the words: not the same in all
    title = task_in_words(config.task.name, dims, sparsity)
    if split in ("", "task.sparsity"):  # which the words have
        return title
    return f"{title}, {in_words(split, setting_of(config, split))}"
