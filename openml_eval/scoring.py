"""Right answers: how many rows of a table a model or a solver classifies from other rows; the last
number beside them is how many rows are asked about.

groups, contexts = split_contexts(len(table.ys), 40, 64, seed=0)
right = model_answers(run, table, groups, contexts)                                # [groups, 3]
"""

from collections.abc import Sequence
from math import ceil
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from looplab.conf.mistakes import RunError
from looplab.tasks import Prompts
from looplab.tasks.tables import reference_split
from looplab.training import Run
from looplab.training.assemble import trained_loops

from .context import Floats, Scaling, answered, model_inputs
from .tables import Table

Rows = NDArray[np.int64]  # indices
Counts = NDArray[np.float64]
_GROUP_CHUNK = 8
_PROMPT_CHUNK = 64
# Seeds of separate random streams.
_GROUPS = 0
_CONTEXTS = 1
FIRST_SEED = 4242  # of the reference's draws of contexts
# Descriptions of scikit-learn's classifiers that stand beside a model, by short name.
SOLVERS = {
    "logistic": "logistic regression, C = 1",
    "logistic-CV": "logistic regression, C of .01 to 100 by five folds of the context",
    "k-NN": "5 nearest neighbours",
    "forest": "random forest of 100 trees",
    "boosting": "gradient boosting, 100 trees of depth 3, rate 0.1",
    "majority": "the majority class of the context",
}


def model_answers(run: Run, table: Table, groups: Sequence[Rows], contexts: Rows) -> Counts:
    """The right answers in each group, [groups, 3]: with the labels of the context as given, with
    these swapped, and of how many. Features are standardised by the context only.

    A group's rows are queries beside one copy of its context, with the same answers as in separate
    prompts.
    """
    right = []
    for start in range(0, len(groups), _GROUP_CHUNK):
        chunk = slice(start, start + _GROUP_CHUNK)
        right.append(_right(run, table, groups[chunk], contexts[chunk]))
    return np.concatenate(right)


def _right(run: Run, table: Table, groups: Sequence[Rows], contexts: Rows) -> Counts:
    """The right answers in groups that are asked together, [groups, 3]."""
    device = next(run.model.parameters()).device
    loops = trained_loops(run.config)
    labels = torch.tensor(run.task.labels, dtype=torch.float32)
    tokens = torch.stack((labels, labels.flip(0)))  # [polarity, class]
    scalings = [Scaling.of(table.xs[context]) for context in contexts]

    def inputs(rows: Rows) -> Tensor:
        """Rows [groups, n], standardised by their contexts: [2 · groups, n, dims]."""
        scaled: list[Floats] = []
        for scaling, group in zip(scalings, rows, strict=True):
            scaled.append(_inputs(run, scaling.apply(table.xs[group])))
        return torch.from_numpy(np.stack(scaled)).float().repeat(2, 1, 1).to(device)

    # [polarity, groups, size] → [2 · groups, size], as `inputs` repeats its rows.
    ys = tokens[:, torch.from_numpy(table.ys[contexts])].flatten(0, 1).to(device)
    prompts = Prompts(inputs(contexts), ys)
    sizes = np.array([len(group) for group in groups])
    # A smaller group is asked about its first rows once more.
    rows = np.stack([np.resize(group, sizes.max()) for group in groups])
    # [2 · groups, m, classes].
    answers = answered(run.model, prompts, inputs(rows), loops)[0]
    classes = answers.argmax(-1).view(2, *rows.shape).cpu().numpy()
    classes[1] = 1 - classes[1]
    asked_once = np.arange(rows.shape[1]) < sizes[:, None]
    right = ((classes == table.ys[rows]) & asked_once).sum(-1)
    return np.vstack((right, sizes)).T.astype(np.float64)


def _inputs(run: Run, xs: Floats) -> Floats:
    """The inputs [n, dims] of a run's model from standardised rows."""
    return model_inputs(xs, run.model.spec.dims, run.task.left_padded, run.task.clip)


def solver_answers(
    table: Table, groups: Sequence[Rows], contexts: Rows, estimator: Any = None
) -> Counts:
    """The right answers of every solver in each group, and of how many, [groups, solvers + 1].
    Solvers have the same contexts, standardised as for a model. Or those of one `estimator`,
    [groups, 2]."""
    # Imported here, as scoring a model does not need them.
    from sklearn.dummy import DummyClassifier
    from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV
    from sklearn.neighbors import KNeighborsClassifier

    logistic = LogisticRegression(max_iter=1000)
    majority = DummyClassifier(strategy="most_frequent")  # a tie gives class 0
    models = [
        logistic,
        logistic,  # its C is chosen in each context
        KNeighborsClassifier(min(5, contexts.shape[1])),
        RandomForestClassifier(n_estimators=100, random_state=0),
        GradientBoostingClassifier(random_state=0),
        majority,
    ]
    if estimator is not None:
        models = [estimator]
    right = np.empty((len(groups), len(models) + 1))
    for index, (rows, context) in enumerate(zip(groups, contexts, strict=True)):
        scaling = Scaling.of(table.xs[context])
        classes = table.ys[context]
        known = scaling.apply(table.xs[context])
        asked = scaling.apply(table.xs[rows])
        rarest = np.bincount(classes).min()
        if estimator is None and rarest > 2:
            grid = {"C": 10.0 ** np.arange(-2, 3)}
            folds = min(5, rarest)
            models[1] = GridSearchCV(logistic, grid, cv=folds, scoring="neg_log_loss")
        elif estimator is None:
            models[1] = logistic
        for number, model in enumerate(models):
            # Of a context of one class all say that class; some of them refuse it.
            model = majority if len(set(classes)) == 1 else model
            answers = model.fit(known, classes).predict(asked)
            right[index, number] = (answers == table.ys[rows]).sum()
        right[index, -1] = len(rows)
    return right


@torch.no_grad()
def reference_answers(run: Run, table: Table, points: int, seed: int) -> Counts:
    """The right answers on the rows of the split, each from points - 1 others drawn
    by `seed`, after the run's loops, [3]: with labels as given, as published, with these swapped,
    and of how many.

    Raises RunError for a split too small for one prompt.
    """
    device = next(run.model.parameters()).device
    _, split = reference_split(len(table.ys))
    if len(split) < points:
        problem = f"5 % of {len(table.ys)} rows are {len(split)}, and a prompt takes {points}"
        raise RunError(f"{table.name}: {problem}; protocol=corrected asks about all rows")
    # Column by column, so that a large table is not in memory twice.
    scaled = np.stack([Scaling.of(column).apply(column[split]) for column in table.xs.T], axis=1)
    xs = torch.from_numpy(_inputs(run, scaled)).float()
    classes = torch.from_numpy(table.ys[split])
    labels = torch.tensor(run.task.labels, dtype=torch.float32)
    random = np.random.default_rng(seed)
    count = len(split)
    correct = np.zeros(2)
    loops = trained_loops(run.config)
    for start in range(0, count, _PROMPT_CHUNK):
        chunk = []
        for query in range(start, min(start + _PROMPT_CHUNK, count)):
            # Other rows in random order, then the query.
            others = random.choice(count - 1, points - 1, replace=False)
            chunk.append(np.append(others + (others >= query), query))
        rows = torch.from_numpy(np.stack(chunk))
        for swapped in (0, 1):
            prompt_classes = classes[rows] ^ swapped
            prompts = Prompts(xs[rows], labels[prompt_classes]).to(device)
            answers = run.model(prompts, loops, 1)[0, :, -1].argmax(-1).cpu()
            correct[swapped] += int((answers == prompt_classes[:, -1]).sum())
    return np.append(correct, count)


def split_contexts(rows: int, size: int, contexts: int, seed: int) -> tuple[list[Rows], Rows]:
    """Split a table's rows into `contexts` groups, more if that is needed to leave `size` rows
    outside each, and at most one per row; and the rows of each group's context, [groups, size], of
    which none is in the group.

    The groups are the same for all seeds, so that they can be resampled: neither a row nor a
    context belongs to two. Their sizes differ by at most one row. RunError for a table with no more
    rows than a context.
    """
    if rows <= size:
        raise RunError(f"a table of {rows} rows has none to ask about beside {size} of context")
    count = min(rows, max(contexts, ceil(rows / (rows - size))))
    order = np.random.default_rng(_GROUPS).permutation(rows)
    groups = np.array_split(order, count)
    random = np.random.default_rng((_CONTEXTS, seed))
    context_rows = np.empty((count, size), np.int64)
    start = 0
    for index, group in enumerate(groups):
        indices = random.choice(rows - len(group), size, replace=False)
        # `order` without the group's own stretch, which begins at `start`.
        context_rows[index] = order[indices + len(group) * (indices >= start)]
        start += len(group)
    return groups, context_rows
