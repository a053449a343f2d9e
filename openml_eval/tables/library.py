"""The `openml` package with its own cache folder: no file of the user's is read or written.

with library(Path("openml_data/.openml")) as openml: openml.datasets.get_dataset(720)
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SERVER = "https://www.openml.org/api/v1/xml"
_TRIES = 2  # a second apart, before a request counts as failed


@contextmanager
def library(root: Path, *, parquet: bool = False) -> Iterator[Any]:
    """The package, with its cache at `root`: it fetches ARFF from openml.org (OpenML gives its
    checksum) or, with `parquet`, reads existing Parquet files. Its settings are restored.

    A process that had not imported it before keeps the initial configuration made here.
    """
    root = root.resolve()
    root.mkdir(parents=True, exist_ok=True)
    # On import it creates the folders in these variables, by default in the home directory.
    with _environment(OPENML_CACHE_DIR=str(root), XDG_CONFIG_HOME=str(root)):
        import openml
    config = openml.config
    settings = {
        name: getattr(config, name) for name in ("server", "apikey", "_root_cache_directory")
    }
    retries = config.retry_policy, config.connection_n_retries
    logger = logging.getLogger("openml")
    level = logger.level
    try:
        config.server, config.apikey = SERVER, ""
        config.set_root_cache_directory(root)
        config.set_retry_policy("human", _TRIES)
        logger.setLevel(logging.CRITICAL)
        with _environment(OPENML_SKIP_PARQUET=str(not parquet)):
            yield openml
    finally:
        for name, value in settings.items():
            setattr(config, name, value)
        config.set_retry_policy(*retries)
        logger.setLevel(level)


@contextmanager
def _environment(**values: str) -> Iterator[None]:
    previous = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in previous.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
