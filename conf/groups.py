"""The files of conf/, composed by Hydra: the values of the chosen task, model, scale and recipe,
overridden by the given ones."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from .actions import SUBJECTS
from .build import config_to_mapping
from .mistakes import ConfigError, one_line
from .plugins import added_tasks
from .proportional import PROPORTIONAL
from .schema import Config

GROUPS = ("task", "model", "scale", "recipe")
_FOLDER = Path(__file__).parent
_RECIPES = {"paper": "paper"}  # by scale, where it is not the fast one
_SCALE = "small"  # the default, as in config.yaml


def choices(group: str) -> list[str]:
    """The names that `task`, `model`, `scale` or `recipe` may take: the files of conf/<group>/, and
    the tasks that were registered outside the project."""
    files = [path.stem for path in (_FOLDER / group).glob("*.yaml")]
    return sorted({*files, *(added_tasks() if group == "task" else ())})


def composed(words: list[str]) -> dict[str, Any]:
    """Hydra's composition of conf/config.yaml with overrides, as plain values. Without a recipe
    among them, the scale's own is taken."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    group_words = {key: word for word in words if (key := word.partition("=")[0]) in GROUPS}
    if "recipe" not in group_words:
        scale = group_words.get("scale", f"scale={_SCALE}").partition("=")[2]
        group_words["recipe"] = f"recipe={_RECIPES.get(scale, 'fast')}"
    values = OmegaConf.create(_of_files(tuple(sorted(group_words.values()))))
    setting_words = [word for word in words if word.partition("=")[0] not in GROUPS]
    try:
        for override in OverridesParser.create().parse_overrides(setting_words):
            key, value = str(override.key_or_group), override.value()
            try:
                OmegaConf.update(values, key, value)
            except OmegaConfBaseException:
                raise ConfigError(key, f"cannot be {value!r}") from None
        plain = OmegaConf.to_container(values, resolve=True)
    except OmegaConfBaseException as error:
        raise _not_composed(error) from None
    assert isinstance(plain, dict)
    return {str(key): value for key, value in plain.items()}


@lru_cache
def _of_files(groups: tuple[str, ...]) -> dict[str, Any]:
    """The composed values of the chosen groups' files. Cached: Hydra takes a tenth of a second, and
    the members of a grid share them."""
    from hydra import compose, initialize_config_dir
    from hydra.core.config_store import ConfigStore
    from hydra.errors import HydraException
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    command = {"action": "train", "again": False, "together": False, **SUBJECTS}
    settings = config_to_mapping(Config()) | command
    del settings["task"]["settings"]  # they are among the others, as task.sparsity
    settings["curriculum"][PROPORTIONAL] = False
    ConfigStore.instance().store("settings", node=settings)
    for name, defaults in added_tasks().items():
        ConfigStore.instance().store(name, group="task", node={"name": name, **defaults})
    try:
        with initialize_config_dir(str(_FOLDER.resolve()), version_base="1.3"):
            composed = compose("config", overrides=list(groups))
        values = OmegaConf.to_container(composed)
    except (HydraException, OmegaConfBaseException) as error:
        raise _not_composed(error) from None
    assert isinstance(values, dict)
    return {str(key): value for key, value in values.items()}


def _not_composed(error: Exception) -> ConfigError:
    return ConfigError("settings", "cannot be put together: " + one_line(error))
