"""The error on the evaluation's prompts while a model trains, every `evaluation.every` steps.

prompts = evaluation_prompts(task, 1280, points, seed=2024)
validate(trainer, prompts, trainer.curriculum(step))        # {"error": 0.41}
"""

import torch
from torch import Generator

from looplab.curricula import Stage
from looplab.tasks import Prompts, Task

from .objective import error
from .step import Trainer


def evaluation_prompts(task: Task, prompts: int, points: int, seed: int) -> Prompts:
    """The prompts that every model of this task is evaluated on: drawn on the CPU, so that a seed
    gives the same prompts on every device.

    Examples
    --------
    >>> from looplab import evaluation_prompts, load_run
    >>> evaluation_prompts(load_run("shipped/linear").task, prompts=8, points=11, seed=0).xs.shape
    torch.Size([8, 11, 10])
    """
    return task.for_evaluation().sample(Generator().manual_seed(seed), prompts, points)


@torch.no_grad()
def validate(trainer: Trainer, prompts: Prompts, stage: Stage) -> dict[str, float]:
    """The error of the model with the weights for evaluation, after the loops of this stage, by its
    name; training goes on as if it had not been measured."""
    model = trainer.model
    task = trainer.task
    errors = []
    weights = [weight.detach().clone() for weight in trainer.parameters]
    if trainer.average:
        trainer.average.copy_to_model()
    for rows in torch.arange(len(prompts.ys)).split(trainer.config.evaluation.batch_size):
        batch = Prompts(prompts.xs[rows], prompts.ys[rows]).to(trainer.device)
        prediction = model(batch, stage.loops, scale_loops=stage.scale_loops)[-1]
        errors.append(error(task.loss, prediction, batch.ys).float().cpu())
    for weight, value in zip(trainer.parameters, weights, strict=True):
        # Copied back into the same memory, which a captured graph reads.
        weight.copy_(value)
    return task.summary(torch.cat(errors), prompts.ys)
