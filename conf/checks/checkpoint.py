"""Checkpoints of other codes that are no single file of weights: folders, and parts of several."""

import re
from pathlib import Path

_PART = re.compile(r"-\d{5}-of-(\d{5})$")
_ENDINGS = (".pt", ".pth", ".bin", ".ckpt", ".safetensors")


def why_not_one_file(path: Path) -> str:
    """Say which file is wanted in place of a folder, or of a part of a checkpoint in several files;
    empty for any other path."""
    distributed = [*path.glob(".metadata"), *path.glob("*/.metadata")]
    if path.suffix == ".distcp" or path.name == ".metadata":
        distributed = [path]
    if distributed:
        folder = distributed[0].parent
        command = f"python -m torch.distributed.checkpoint.format_utils dcp_to_torch {folder} a.pt"
        return f"{path} is a distributed one: import the file that `{command}` makes"
    if path.is_dir() and (path / "zero_to_fp32.py").is_file():
        command = f"python {path}/zero_to_fp32.py {path} OUT"
        return f"{path} is one of DeepSpeed: import the pytorch_model.bin that `{command}` makes"
    if path.name.endswith("optim_states.pt"):
        return f"{path} is the state of an optimiser: import the file of the model's"
    part = _PART.search(path.stem)
    if path.name.endswith(".index.json") or (part and part[1] != "00001"):
        merged = "load them all, save one state_dict"
        return f"{path} is part of one in several files: {merged}, and import that file"
    if path.is_dir():
        files = [file for file in sorted(path.iterdir()) if file.suffix in _ENDINGS]
        whole = [file.name for file in files if not why_not_one_file(file)]
        if files and not whole:
            return why_not_one_file(files[0])
        return f"is no file: {path}; name one in it, as {whole[0] if whole else 'state.pt'}"
    return ""
