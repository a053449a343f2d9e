"""The rooms at the top become subpackages of looplab, which pyproject.toml cannot say."""

from setuptools import find_packages, setup

ROOMS = (
    *("benchmarks", "conf", "curricula", "evaluation", "experiments", "models", "openml_eval"),
    *("probing", "show", "tasks", "training"),
)
INNER = [f"{room}.{name}" for room in ROOMS for name in find_packages(room)]

setup(
    packages=["looplab", *(f"looplab.{name}" for name in (*ROOMS, *INNER))],
    package_dir={f"looplab.{room}": room for room in ROOMS},
)
