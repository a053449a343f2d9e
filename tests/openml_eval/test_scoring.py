"""Hits beside a shared context are those of separate prompts; solvers are scikit-learn's; every row
is asked about once, from other rows."""

from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.neighbors import KNeighborsClassifier

from looplab.conf.mistakes import RunError
from looplab.conf.schema import Config, LoopsConfig, ModelConfig, TaskConfig
from looplab.openml_eval.scoring import (
    SOLVERS,
    Rows,
    model_answers,
    reference_answers,
    solver_answers,
    split_contexts,
)
from looplab.openml_eval.tables import Table
from looplab.tasks import Prompts, make_task
from looplab.tasks.tables import reference_split
from looplab.training import Run
from looplab.training.assemble import trained_loops
from tests.openml_eval.conftest import Floats, halves, make_model

DIMS, SIZE = 5, 10


def make_table(rows: int = 70, features: int = 3, seed: int = 0) -> Table:
    xs, ys = halves(rows, features, seed)
    names = tuple(f"x{index}" for index in range(features))
    return Table("small", names, xs, ys, ("no", "yes"))


@torch.no_grad()
def trained(protocol: str = "corrected", family: str = "looped") -> Run:
    """A model of noise that gives each class as often as the other, by query and by context."""
    shape = (1, 16, 2, SIZE + 1, "add") if family == "looped" else (2, 16, 2, SIZE + 1, "none")
    config = Config(
        task=TaskConfig("tables", DIMS, SIZE + 1),
        model=ModelConfig(family, *shape),  # type: ignore[arg-type]
        loops=LoopsConfig(4, 2),
    )
    model, source = make_model(config).eval(), torch.Generator().manual_seed(3)
    for weights in model.parameters():
        weights.add_(0.7 * torch.randn(weights.shape, generator=source))
    task = make_task("tables", DIMS, 0, {"protocol": protocol})
    made = Run(Path(), config, task, model, 0)
    loops = trained_loops(config)
    xs = torch.randn(500, SIZE + 1, DIMS, generator=source)
    xs[..., : DIMS - 3] = 0
    ys = torch.tensor(task.labels)[torch.randint(2, (500, SIZE + 1), generator=source)]
    logits = model(Prompts(xs, ys), loops, 1)[0, :, -1]
    model.read_out.bias[1] -= (logits[:, 1] - logits[:, 0]).median()
    return made


def one_by_one(
    trained: Run, table: Table, groups: list[Rows], contexts: Rows, swapped: int
) -> list[int]:
    """The right answers in each group, of each row at the end of a prompt of its own."""
    found = []
    labels = trained.task.labels
    for group, context in zip(groups, contexts, strict=True):
        own, right = table.xs[context], 0
        for row in group:
            rows = [*context, row]
            xs = np.zeros((1, SIZE + 1, DIMS))
            xs[0, :, DIMS - own.shape[1] :] = (table.xs[rows] - own.mean(0)) / own.std(0)
            named = table.ys[rows] ^ swapped
            ys = torch.tensor([[labels[label] for label in named]])
            answer = trained.model(
                Prompts(torch.from_numpy(xs).float(), ys), trained_loops(trained.config), 1
            )
            right += int(answer[0, 0, -1].argmax() == named[-1])
        found.append(right)
    return found


@pytest.mark.parametrize("protocol", ["corrected", "reference"])
@pytest.mark.parametrize("family", ["looped", "standard"])
def test_answers_are_those_of_separate_prompts(
    protocol: str, family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("looplab.openml_eval.context._QUERY_CHUNK", 5)
    asked, table = trained(protocol, family), make_table()
    split = split_contexts(70, SIZE, 9, seed=1)
    right = model_answers(asked, table, *split)
    assert right[:, 2].tolist() == [len(group) for group in split[0]]
    for swapped in (0, 1):
        assert right[:, swapped].tolist() == one_by_one(asked, table, *split, swapped)
        assert 0.2 < right[:, swapped].sum() / 70 < 0.8
    assert (right[:, 0] != right[:, 1]).any()


def cross_validated(xs: Floats, ys: Rows) -> LogisticRegression:
    """With the C of least log loss in five folds, or as many as the rarer class has rows."""
    folds = min(5, np.bincount(ys).min())
    models = [LogisticRegression(C=C) for C in (0.01, 0.1, 1, 10, 100)]
    scores = [cross_val_score(each, xs, ys, cv=folds, scoring="neg_log_loss") for each in models]
    return models[int(np.mean(scores, axis=1).argmax())]


def test_the_rarest_of_classes_bounds_the_folds() -> None:
    """With two rows of a class C is 1; with a class alone, all say that one."""
    table = make_table()
    for ones in (2, 0):
        table.ys[:] = np.arange(70) < ones
        right = solver_answers(table, [np.arange(20, 30)], np.arange(10)[None])
        assert right[0, 0] == right[0, 1] > 5


def test_solvers_are_scikit_learns_on_standardised_contexts() -> None:
    plain = {
        "logistic": LogisticRegression(max_iter=1000),
        "logistic-CV": None,
        "k-NN": KNeighborsClassifier(5),
        "forest": RandomForestClassifier(100, random_state=0),
        "boosting": GradientBoostingClassifier(random_state=0),
    }
    assert [*plain, "majority"] == list(SOLVERS)
    table, (groups, contexts) = make_table(), split_contexts(70, SIZE, 6, seed=2)
    right = solver_answers(table, groups[1:3], contexts[1:3])
    for number, model in enumerate(plain.values()):
        for index, g in enumerate((1, 2)):
            context, group = contexts[g], groups[g]
            mean, std = table.xs[context].mean(0), table.xs[context].std(0)
            known = (table.xs[context] - mean) / std
            solver = cross_validated(known, table.ys[context]) if model is None else model
            solver.fit(known, table.ys[context])
            answers = solver.predict((table.xs[group] - mean) / std)
            assert right[index, number] == (answers == table.ys[group]).sum(), model


def test_the_reference_asks_a_twentieth_and_standardises_by_the_whole_table() -> None:
    asked, table = trained("reference"), make_table(rows=2000)
    _, split = reference_split(2000)
    assert len(split) == 100
    outside = int(np.setdiff1d(np.arange(2000), split)[0])
    table.xs[outside] *= 1000  # which moves all rows, though it is never asked about
    found = reference_answers(asked, table, SIZE + 1, seed=4242)
    scaled = (table.xs - table.xs.mean(0)) / table.xs.std(0)
    xs = np.concatenate((np.zeros((2000, 2)), scaled), axis=1)[split]
    random, right = np.random.default_rng(4242), 0
    for query in range(100):
        others = np.delete(np.arange(100), query)[random.choice(99, SIZE, replace=False)]
        rows = [*others, query]
        ys = torch.from_numpy(table.ys[split][rows]).float()[None]
        prompt = Prompts(torch.from_numpy(xs[rows]).float()[None], ys)
        answer = asked.model(prompt, trained_loops(asked.config), 1)[0, 0, -1].argmax()
        right += int(answer == table.ys[split][query])
    assert found[[0, 2]].tolist() == [right, 100]
    assert all(0 < count < 100 for count in found[:2])
    with pytest.raises(RunError, match="5 % of 200 rows are 10, and a prompt takes 11"):
        reference_answers(asked, make_table(rows=200), SIZE + 1, 0)


@pytest.mark.parametrize(
    ("rows", "size", "contexts", "expected"),
    [(300, 40, 64, 64), (41, 40, 4, 41), (50, 40, 2, 5), (60, 3, 100, 60), (90, 40, 1, 2)],
)
def test_rows_are_dealt_once_and_contexts_hold_others(
    rows: int, size: int, contexts: int, expected: int
) -> None:
    groups, drawn = split_contexts(rows, size, contexts, seed=0)
    assert len(groups) == expected
    np.testing.assert_array_equal(np.sort(np.concatenate(groups)), np.arange(rows))
    assert drawn.shape == (expected, size)
    for group, context in zip(groups, drawn, strict=True):
        assert len(set(context)) == size
        assert not set(context) & set(group)
        assert context.min() >= 0
        assert context.max() < rows
    assert max(len(group) for group in groups) <= -(-rows // expected)
