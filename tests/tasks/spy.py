"""Look at the parameters behind sampled prompts."""

from __future__ import annotations

from typing import Any

import pytest
from torch import Tensor

from reloop.tasks import Prompts, Task
from tests.tasks.statistics import generator


def sample_with_parameters(
    task: Task, batch: int, points: int, dims: int | None = None, seed: int = 0
) -> tuple[Prompts, Any]:
    """Prompts from `task.sample`, and the parameters that their outputs were made from."""
    seen: list[Any] = []
    outputs = type(task).outputs

    def spy(self: Task, xs: Tensor, parameters: Any) -> Tensor:
        seen.append(parameters)
        return outputs(self, xs, parameters)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(task), "outputs", spy)
        prompts = task.sample(generator(seed), batch, points, dims)
    (parameters,) = seen
    return prompts, parameters
