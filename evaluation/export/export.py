"""Write a finished run as a folder that travels.

export(load_run("runs/NAME"), Path("NAME"))
"""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from looplab.conf.build import config_to_mapping
from looplab.conf.mistakes import ConfigError
from looplab.conf.schema import Config
from looplab.training.assemble import trained_loops
from looplab.training.run_folder.checkpoint import EXPORTED, save_checkpoint
from looplab.training.run_folder.data import copy_kept
from looplab.training.run_folder.files import write_bytes, write_json, write_record
from looplab.training.run_folder.run import Run, RunFolder

from .card import card

_CODE = Path(__file__).with_name("modeling_looplab.py")
_GROUPS = (  # of the configuration that travels
    *("task", "model", "loops", "curriculum", "training", "evaluation"),
    *("seed", "scale", "recipe"),
)


def export(run: Run, folder: Path) -> Path:
    """Make `folder` of a run, whole or not at all; its path. Raises ConfigError for a run that is
    unfinished, OSError where a folder that is not empty is there."""
    steps = run.config.training.steps
    if run.step < steps:
        raise ConfigError("run", f"{run.path} is not finished: {run.step:,} of {steps:,} steps")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as temporary:
        partial = Path(temporary) / "partial"
        _write(run, partial)
        partial.rename(folder)
    return folder


def _write(run: Run, folder: Path) -> None:
    weights = {f"model.{name}": tensor for name, tensor in run.model.state_dict().items()}
    save_checkpoint(folder / "checkpoints", run.step, weights)
    (tensors,) = (folder / "checkpoints").glob("*.safetensors")
    tensors.rename(folder / EXPORTED)
    config = config_to_mapping(Config(**{part: getattr(run.config, part) for part in _GROUPS}))
    write_bytes(folder / "config.yaml", yaml.safe_dump(config, sort_keys=False).encode())
    made_with, status = RunFolder(run.path).made_with() or {}, RunFolder(run.path).status()
    known = ("git_commit", "python", "torch", "backend")
    environment = {key: made_with.get(key) for key in known}
    write_record(folder / "environment.json", "environment", environment)
    times = {key: status[key] for key in ("seconds", "cpu_seconds") if key in status}
    state = {"state": "finished", "step": run.step} | times
    write_record(folder / "status.json", "status", state)
    copy_kept(run.path, folder, places=False)
    facts = {"model_type": "looplab", "step": run.step, "settings": config}
    write_json(folder / "config.json", facts | (_language(run, folder) if run.task.is_text else {}))
    write_bytes(folder / "README.md", card(run, made_with).encode())


def _language(run: Run, folder: Path) -> dict[str, Any]:
    """What config.json has of a language model for `transformers`, whose other files are written to
    the folder."""
    vocabulary = run.model.spec.vocabulary
    write_bytes(folder / _CODE.name, _CODE.read_bytes())
    special = dict.fromkeys(("bos_token_id", "eos_token_id"), vocabulary - 1)
    write_json(folder / "generation_config.json", special | {"use_cache": False})
    if (folder / "tokenizer.json").exists():  # without the start token, which gets the next number
        tokenizer = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<|start|>"}
        write_json(folder / "tokenizer_config.json", tokenizer)
    name = "LooplabForCausalLM"
    return {
        "architectures": [name],
        "auto_map": {
            "AutoConfig": f"{_CODE.stem}.LooplabConfig",
            "AutoModelForCausalLM": f"{_CODE.stem}.{name}",
        },
        "dtype": "float32",
        "vocab_size": vocabulary,
        "loops": trained_loops(run.config),
    }
