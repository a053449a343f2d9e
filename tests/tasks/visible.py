"""Which dimensions of a prompt are visible."""

from __future__ import annotations

from reloop.tasks import Task


def visible(task: Task, dims: int) -> slice:
    """The first `dims`; the last, where a task's inputs are padded on the left."""
    return slice(task.dims - dims, None) if task.left_padded else slice(dims)


def hidden(task: Task, dims: int) -> slice:
    """All others."""
    return slice(task.dims - dims) if task.left_padded else slice(dims, None)
