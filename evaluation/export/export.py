"""Write a finished run as a folder that travels.

export(load_run("runs/NAME"), Path("NAME"), card)
"""

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import yaml

from looplab.conf.build import config_to_mapping
from looplab.conf.mistakes import ConfigError
from looplab.conf.schema import Config
from looplab.tasks.language import Language
from looplab.training.assemble import trained_loops
from looplab.training.run_folder.checkpoint import EXPORTED, save_checkpoint
from looplab.training.run_folder.data import copy_kept
from looplab.training.run_folder.files import write_bytes, write_json, write_record
from looplab.training.run_folder.run import Run, RunFolder

from ..plain import Content, Fields
from .tokenizer import tokenizer_file, tokenizer_settings

_CODE = Path(__file__).with_name("modeling_looplab.py")
# What is exported of the configuration, and of environment.json below.
_GROUPS = (
    "task",
    "model",
    "loops",
    "curriculum",
    "training",
    "evaluation",
    "seed",
    "scale",
    "recipe",
)
_KNOWN = ("git_commit", "python", "torch", "backend")
# Writes README.md from a run and what it was made with. An argument: show/ is not imported here.
Card = Callable[[Run, Content], str]


def export(run: Run, folder: Path, card: Card) -> Path:
    """Make `folder` of a run, whole or not at all; its path. Raises ConfigError for a run that is
    unfinished, OSError where a folder that is not empty is there."""
    steps = run.config.training.steps
    if run.step < steps:
        raise ConfigError("run", f"{run.path} is not finished: {run.step:,} of {steps:,} steps")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as temporary:
        partial = Path(temporary) / "partial"
        _write(run, partial, card)
        # A folder takes an empty one's place; where there are files the system refuses it.
        partial.rename(folder)
    return folder


def _write(run: Run, folder: Path, card: Card) -> None:
    weights = {f"model.{name}": tensor for name, tensor in run.model.state_dict().items()}
    save_checkpoint(folder / "checkpoints", run.step, weights)
    (tensors,) = (folder / "checkpoints").glob("*.safetensors")
    # `load_checkpoint` looks there too, and compares the checksum that stays in checkpoints/.
    tensors.rename(folder / EXPORTED)
    # Without what is of one machine, as folder and device, and without plugins, which are code.
    config = config_to_mapping(Config(**{name: getattr(run.config, name) for name in _GROUPS}))
    write_bytes(folder / "config.yaml", yaml.safe_dump(config, sort_keys=False).encode())
    made_with = RunFolder(run.path).made_with() or {}
    environment = {key: made_with.get(key) for key in _KNOWN}
    write_record(folder / "environment.json", "environment", environment)
    status = RunFolder(run.path).status()
    state: dict[str, object] = {"state": "finished", "step": run.step}
    state |= {key: status[key] for key in ("seconds", "cpu_seconds") if key in status}
    write_record(folder / "status.json", "status", state)
    copy_kept(run.path, folder, exported=True)
    facts = {"model_type": "looplab", "step": run.step, "settings": config}
    if run.task.is_text:
        facts |= _write_language_files(run, folder)
    write_json(folder / "config.json", facts)
    write_bytes(folder / "README.md", card(run, made_with).encode())


def _write_language_files(run: Run, folder: Path) -> Fields:
    """Write what `transformers` needs of a language model; returns its entries of config.json."""
    spec = run.model.spec
    task = run.task
    assert isinstance(task, Language)
    write_bytes(folder / _CODE.name, _CODE.read_bytes())
    write_json(folder / "tokenizer.json", tokenizer_file(task.tokenizer))
    settings = tokenizer_settings(task.tokenizer, spec.n_positions)
    write_json(folder / "tokenizer_config.json", settings)
    names = ("bos_token_id", "eos_token_id", "pad_token_id")
    special = dict.fromkeys(names, task.tokenizer.start)
    write_json(folder / "generation_config.json", special | {"use_cache": False})
    class_name = "LooplabForCausalLM"
    code = {
        "AutoConfig": f"{_CODE.stem}.LooplabConfig",
        "AutoModelForCausalLM": f"{_CODE.stem}.{class_name}",
    }
    facts = {
        "architectures": [class_name],
        "auto_map": code,
        "dtype": "float32",
        "vocab_size": spec.vocabulary,
        "loops": trained_loops(run.config),
        "max_position_embeddings": spec.n_positions,
        "tie_word_embeddings": spec.tied_head,
    }
    return facts | special
