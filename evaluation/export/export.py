"""Write a finished run as a folder that travels.

export(load_run("runs/NAME"), Path("NAME"))
"""

from pathlib import Path
from typing import Any

from looplab.conf.mistakes import ConfigError
from looplab.conf.saved import read_mapping
from looplab.tasks.language import Language
from looplab.training.assemble import trained_loops
from looplab.training.run_folder.checkpoint import pack
from looplab.training.run_folder.files import write_bytes, write_json, write_record
from looplab.training.run_folder.run import Run, RunFolder

from .card import card

_CODE = Path(__file__).with_name("modeling_looplab.py")
_CLASSES = {"AutoConfig": "LooplabConfig", "AutoModelForCausalLM": "LooplabForCausalLM"}
_START = "<|start|>"  # the start token's name, which the tokeniser's own file does not have


def export(run: Run, folder: Path, replace: bool = False) -> Path:
    """Make `folder` of a run; its path. It is whole or is not there: raises ConfigError for a run
    that is unfinished, OSError where a folder that is not empty is there, unless it is to be
    replaced."""
    steps = run.config.training.steps
    if run.step < steps:
        raise ConfigError("run", f"{run.path} is not finished: {run.step:,} of {steps:,} steps")
    kept = RunFolder(run.path)
    made_with, status = kept.made_with() or {}, kept.status()

    def add(partial: Path) -> None:
        known = ("git_commit", "python", "torch", "backend")
        environment = {key: made_with.get(key) for key in known}
        write_record(partial / "environment.json", "environment", environment)
        times = {key: status[key] for key in ("seconds", "cpu_seconds") if key in status}
        state = {"state": "finished", "step": run.step} | times
        write_record(partial / "status.json", "status", state)
        facts = {"model_type": "looplab", "step": run.step, "settings": read_mapping(partial)}
        if isinstance(run.task, Language):
            facts |= _for_transformers(run, partial)
        write_json(partial / "config.json", facts)
        write_bytes(partial / "README.md", card(run, made_with).encode())

    return pack(run.path, folder, add, replace)


def _for_transformers(run: Run, folder: Path) -> dict[str, Any]:
    """Write the files that `transformers` reads of a language model, but for config.json; what that
    has for it beside the settings."""
    vocabulary = run.model.spec.vocabulary
    write_bytes(folder / _CODE.name, _CODE.read_bytes())
    special = dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id"), vocabulary - 1)
    write_json(folder / "generation_config.json", special | {"use_cache": False})
    if (folder / "tokenizer.json").exists():
        start = {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "added_tokens_decoder": {f"{vocabulary - 1}": {"content": _START, "special": True}},
            "bos_token": _START,
        }
        write_json(folder / "tokenizer_config.json", start)
    return {
        "architectures": [_CLASSES["AutoModelForCausalLM"]],
        "auto_map": {auto: f"{_CODE.stem}.{name}" for auto, name in _CLASSES.items()},
        "dtype": "float32",
        "vocab_size": vocabulary,
        "loops": trained_loops(run.config),
    }
