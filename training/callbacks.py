"""Functions of yours that a training calls; and its end before the last step.

train(config, callbacks=[EarlyStopping(patience=3)])       # with evaluation.every
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from looplab.conf.mistakes import check_count


class Callback:
    """What `train` calls while it makes steps: a subclass overrides what it needs.

    A callback sees what is logged, and changes no number of the training. A finished run, which is
    returned without steps, calls none. Under torchrun the first process alone calls them.

    Examples
    --------
    >>> from looplab import Callback
    >>> class Losses(Callback):
    ...     def on_log(self, step, values):
    ...         print(step, values["loss"])
    """

    def on_log(self, step: int, values: Mapping[str, Any]) -> None:
        """Take the record that metrics.jsonl has got after so many steps: loss, grad_norm, …"""

    def on_evaluate(self, step: int, values: Mapping[str, float]) -> None:
        """Take the error on the evaluation's prompts, every `evaluation.every` steps: error, or of
        a text bits_per_byte."""

    def stops(self, errors: Sequence[float]) -> bool:
        """Say whether training ends here, by all errors that the log has up to this step: a run
        that was interrupted and goes on decides as one that was not."""
        return False


@dataclass(frozen=True)
class EarlyStopping(Callback):
    """Ends a training once the error on the evaluation's prompts has not fallen for a while.

    The run counts as unfinished; without this callback the same configuration goes on with it.

    Parameters
    ----------
    patience : int
        How many errors, one each `evaluation.every` steps, are not below the least before them.

    Raises
    ------
    ConfigError
        For a patience below 1; by `train`, where `evaluation.every` is not given.

    Examples
    --------
    >>> from looplab import EarlyStopping
    >>> EarlyStopping(patience=2).stops([1.0, 0.6, 0.7, 0.6])
    True
    """

    patience: int = 5

    def __post_init__(self) -> None:
        check_count("patience", self.patience, 1)

    def stops(self, errors: Sequence[float]) -> bool:
        """Say whether the last `patience` errors are no less than the least before them."""
        before = errors[: -self.patience]
        return bool(before) and min(errors[-self.patience :]) >= min(before)
