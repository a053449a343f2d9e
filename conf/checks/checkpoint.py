"""Checkpoints of other codes that are no single file of weights: folders, and parts of several."""

import re
from pathlib import Path

# The name of a file, and what is wanted in its place.
_WANTED = {
    r"\.distcp$|\.metadata$": "import the one that `python -m torch.distributed.checkpoint."
    "format_utils dcp_to_torch FOLDER state.pt` makes of the folder of .metadata",
    r"^zero_to_fp32\.py$": "import the pytorch_model.bin that its zero_to_fp32.py makes",
    r"optim_states\.pt$": "this is the state of an optimiser, import that of the model",
    r"-\d{5}-of-(?!00001)\d{5}\.|\.index\.json$": "it is in several: load them all, save one "
    "state_dict and import that",
}


def why_not_one_file(path: Path) -> str:
    """Say which file is wanted in place of a folder, or of a part of a checkpoint in several files;
    empty for any other path."""
    names = [path.name]
    if path.is_dir():
        files = list(path.glob("*")) + list(path.glob("*/*"))
        names = sorted(str(file.relative_to(path)) for file in files)
    for pattern, wanted in _WANTED.items():
        if any(re.search(pattern, name) for name in names):
            return f"is no file of a whole model: {path}; {wanted}"
    return f"is no file: {path}; name one in it" if path.is_dir() else ""
