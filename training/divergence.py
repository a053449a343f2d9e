"""Recovery from a loss or a gradient that is not finite, with a record of the batch."""

from __future__ import annotations

import safetensors.torch
import torch
from torch import Tensor

from .run_folder.checkpoint import newest_checkpoint
from .run_folder.files import write_bytes
from .run_folder.run import RunError, RunFolder
from .step import Trainer

_LEAST_FACTOR = 2.0**-10


def recover(folder: RunFolder, trainer: Trainer, bad_step: int) -> tuple[int, str]:
    """Write the batch that diverged and, with on_divergence=rollback, load the last checkpoint and
    halve the rate: the checkpoint's step, and a line for the user.

    Raises RunError with on_divergence=stop, and after too many rollbacks.
    """
    reason = _record(folder, trainer, bad_step)
    if trainer.config.training.on_divergence == "stop":
        raise RunError(reason)
    checkpoint, _ = newest_checkpoint(folder.checkpoints)
    factor = trainer.rate_factor / 2
    if checkpoint is None or factor < _LEAST_FACTOR:
        raise RunError(f"{reason}; the run diverges at any rate; the last checkpoint is intact")
    trainer.load(checkpoint)
    trainer.rate_factor = factor
    return checkpoint.step, f"{reason}; back to step {checkpoint.step} at {factor} x the rate"


def _record(folder: RunFolder, trainer: Trainer, step: int) -> str:
    """Write the batch that diverged (sampled again from seed and step), and return one line.

    The update was skipped on the device, so that the weights are still finite: the residual norm
    is computed with them, the mean over tokens of the last loop's state before its norm.
    """
    stage, number = trainer.curriculum(step), step + 1  # as metrics and checkpoints count
    batch: dict[str, Tensor] = {}
    norms = []
    for shard in range(trainer.config.training.shards):
        prompts = trainer.prompts(step, shard)
        batch |= {f"xs.{shard}": prompts.xs.cpu(), f"ys.{shard}": prompts.ys.cpu()}
        *_, (state, _) = trainer.model.unroll(prompts, stage.loops, scale_loops=stage.scale_loops)
        norms.append(state.raw.float().norm(dim=-1).mean())
    path = folder.path / f"diverged_{number:08d}.safetensors"
    write_bytes(path, safetensors.torch.save(batch))
    norm = float(torch.stack(norms).mean())
    return (
        f"step {number} gave a loss or gradient that is not finite ({stage.loops} loops, residual "
        f"norm {norm:.3g}); its update was skipped, its batch is in {path}"
    )
