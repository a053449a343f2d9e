"""The configuration that a run folder was made with, and the trained models of the project, which
can stand for a run folder. No torch here.

config = read_config(Path("runs/NAME"))
unpacked("shipped/linear")           # runs/shipped/linear-1f0c93ab, a copy made at first use
"""

import json
import shutil
import sys
from collections.abc import Mapping
from glob import escape
from os import PathLike
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import yaml

from .build import config_from_mapping
from .checks.folders import check_folder
from .mistakes import ConfigError, one_line
from .plugins import COPIES, PREFIX, Slip
from .schema import Config

_PREFIX = "shipped/"
_MOST_NAMED = 4  # folders, in a message
SHELF = Path(__file__).parent.parent / "models" / "checkpoints"
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # a tenth of the time, if it was compiled


def shipped_names() -> list[str]:
    """The names of the models that come with the project."""
    return sorted(path.parent.name for path in SHELF.glob("*/config.yaml"))


def unpacked(path: str | PathLike[str]) -> Path:
    """The run folder of a path: for shipped/<name> a copy of that model in the current directory's
    runs/shipped/<name>-<hash>, where its evaluations and probes go; else the path itself. The hash
    is that of the weights, so that a newer model has another copy.

    Raises ConfigError for a name that does not ship, and where no copy can be written.
    """
    name = Path(path).as_posix()
    if not f"{name}/".startswith(_PREFIX) or Path(name).is_dir():
        return Path(path)
    name = f"{name}/".removeprefix(_PREFIX).rstrip("/")
    if name not in (names := shipped_names()):
        listing = ", ".join(_PREFIX + model for model in names)
        raise ConfigError(_PREFIX + name, f"does not ship; those that do: {listing}")
    (facts,) = (SHELF / name / "checkpoints").glob("*.json")
    # Not of the file itself: it would be read at each command, and the JSON has its digest.
    digest = json.loads(facts.read_text(encoding="utf-8"))["sha256"]
    copy = Path(Config.folder) / _PREFIX / f"{name}-{digest[:8]}"
    if not copy.exists():
        check_folder(f"the copy of {_PREFIX}{name}", str(copy))
        copy.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(mkdtemp(prefix=f".{name}-", dir=copy.parent))
        try:
            shutil.copytree(SHELF / name, temporary / name)
            # Copied beside its place, then renamed: other processes see a whole run or none.
            (temporary / name).rename(copy)
        except OSError:
            if not copy.exists():  # or another process was faster
                raise
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    return copy


def read_config(folder: Path) -> Config:
    """The configuration of the run in a folder, with the run's copies of plugins that are no longer
    there; ConfigError where there is none that this version can read."""
    mapping = dict(read_mapping(folder))
    before = mapping.get("plugins") or []
    mapping["plugins"] = plugins_of(folder, mapping)
    for path, now in zip(before, mapping["plugins"], strict=True):
        if path != now and PREFIX + Path(now).stem not in sys.modules:
            problem = f"plugins: {path} is not there, {now} is used; plugins=NEW where it has moved"
            print(problem, file=sys.stderr, flush=True)
    try:
        return config_from_mapping(mapping)
    except ConfigError as error:
        if isinstance(error, Slip) or error.key == "plugins":  # which names its own file
            raise
        raise ConfigError(f"{folder / 'config.yaml'}:", str(error)) from None


def plugins_of(folder: Path, mapping: Mapping[str, Any]) -> list[str]:
    """The plugins of the run in a folder, whose configuration is `mapping`: of each that is no
    longer there the copy that the run keeps, if it does."""
    paths = []
    for path in mapping.get("plugins") or ():
        copy = folder.absolute() / COPIES / Path(path).name
        paths.append(path if Path(path).exists() or not copy.exists() else str(copy))
    return paths


def instead_of(folder: Path) -> str:
    """What a folder that is not there may have meant, as the end of a line: the model that ships by
    its name, or the run folders whose names begin so. Empty where there is neither."""
    if not folder.exists() and folder.name in shipped_names():
        return f"; did you mean {_PREFIX}{folder.name}?"
    configs = sorted(folder.parent.glob(f"{escape(folder.name)}?*/config.yaml"))
    if folder.exists() or not configs:
        return ""
    names = ", ".join(str(config.parent) for config in configs[:_MOST_NAMED])
    return f"; folders that begin so: {names}{', …' * (len(configs) > _MOST_NAMED)}"


def read_mapping(folder: Path) -> Mapping[str, Any]:
    """The configuration as plain values, as written: absent keys take their default. Raises
    ConfigError where there is no configuration."""
    path = unpacked(folder) / "config.yaml"
    try:
        mapping = yaml.load(path.read_text(encoding="utf-8"), _LOADER)
    except (FileNotFoundError, NotADirectoryError):
        problem = f"is no run folder: it holds no config.yaml{instead_of(path.parent)}"
        raise ConfigError(f"{path.parent}", problem) from None
    except (OSError, ValueError, yaml.YAMLError, RecursionError) as error:
        raise ConfigError(f"{path}", f"cannot be read: {one_line(error)}") from None
    if not isinstance(mapping, dict):
        raise ConfigError(f"{path}", "cannot be read: it holds no settings")
    return mapping
