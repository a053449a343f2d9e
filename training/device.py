"""Where a run computes and how exactly, decided once and said with the reason."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from conf.checks import ConfigError


@dataclass(frozen=True)
class Placement:
    """A device, the precision of matrix products on it (fp32, tf32 or bf16; weights, sums and
    statistics are always fp32), and one line that says why."""

    device: torch.device
    precision: str
    why: str

    @property
    def compute_dtype(self) -> torch.dtype | None:
        """What a model's matrix products are cast to; None where nothing is cast."""
        return torch.bfloat16 if self.precision == "bf16" else None

    def apply(self) -> None:
        """Allow TF32 products on CUDA, or forbid them."""
        if self.device.type == "cuda":
            torch.backends.cuda.matmul.allow_tf32 = self.precision == "tf32"


def place(device: str, precision: str) -> Placement:
    """Choose for `auto`; raise ConfigError for what this machine does not have.

    auto takes CUDA where there is some. In fp32 on a CPU the products are exact; on CUDA auto means
    TF32, which is what the reference trains with.
    """
    if device == "auto":
        chosen = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        why = "a GPU is there" if chosen.type == "cuda" else "no GPU that PyTorch can use"
    else:
        chosen, why = _named(device), "as asked"
    if precision == "auto":
        precision = "tf32" if chosen.type == "cuda" else "fp32"
        why += f"; {precision} is the reference's there" if precision == "tf32" else "; exact"
    elif precision == "tf32" and chosen.type != "cuda":
        raise ConfigError("precision", f"cannot be tf32 on {chosen}: it needs an NVIDIA GPU")
    name = (
        torch.cuda.get_device_name(chosen)
        if chosen.type == "cuda"
        else f"{chosen}, {torch.get_num_threads()} threads"
    )
    return Placement(chosen, precision, f"device {name}, precision {precision} ({why})")


def _named(device: str) -> torch.device:
    known = device.partition(":")[0] in ("cpu", "cuda", "mps")
    try:
        if known:
            return torch.empty(1, device=device).device
    except (RuntimeError, AssertionError):
        pass
    raise ConfigError("device", f"cannot be {device!r} on this machine")
