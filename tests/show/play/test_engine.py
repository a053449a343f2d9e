"""The engine of a page beside PyTorch, with the same rounded weights; what it cannot do; a page of
tables beside the estimator and scikit-learn."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.utils import check_random_state
from torch import Tensor

from looplab.conf.mistakes import ConfigError
from looplab.models import Model, ModelSpec
from looplab.models.queries import Queries
from looplab.openml_eval.context import context_rows
from looplab.openml_eval.estimators import LoopedClassifier
from looplab.show.play import facts
from looplab.tasks import Prompts
from looplab.tasks.curves import Curves
from looplab.tasks.tables_prior import TablesPrior
from tests.models.small import Batch, make_spec

ENGINE = Path(facts.__file__).with_name("engine.js")
LOOPS = 12
_ASK = """
const Engine = require(process.argv[1]);
const { model, xs, ys, queries, loops } = JSON.parse(require("fs").readFileSync(0, "utf8"));
Engine.read(model).then((ready) => {
  const found = [];
  for (const each of ready.unroll(...[xs, ys, queries].map((list) => Float64Array.from(list)))) {
    if (found.push([...each]) > loops) break;
  }
  console.log(JSON.stringify(found));
});
"""
needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="there is no node")


def ask(script: str, asked: object) -> Any:
    """What node prints for a script that has the engine's path and reads this JSON."""
    done = subprocess.run(
        ["node", "-e", script, str(ENGINE)],
        input=json.dumps(asked), capture_output=True, text=True, check=True,
    )  # fmt: skip
    return json.loads(done.stdout)


def rounded_model(**shape: Any) -> Model:
    """A model whose weights are as large as trained ones, rounded to float16."""
    sizes: dict[str, Any] = {"dims": 5, "n_embd": 32, "n_head": 4, "n_positions": 24}
    model = Model(ModelSpec(**(sizes | shape)))
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            parameter.copy_((parameter + 0.15 * noise).half().float())
    return model


@needs_node
@pytest.mark.parametrize("tokens", ["pairs", "interleaved"])
@pytest.mark.parametrize(
    "shape",
    [
        {"injection": "add"},
        {"injection": "none", "n_layer": 2, "loops": 6, "residual_scaling": "sqrt"},
        {"family": "tied", "injection": "none"},
        {"family": "standard", "injection": "none", "n_layer": 3},
    ],
    ids=["looped", "without injection", "tied", "standard"],
)
@pytest.mark.parametrize("points", [0, 20])
def test_predictions_are_those_of_python(shape: dict[str, Any], tokens: str, points: int) -> None:
    """At the read-in and after each loop or layer, for queries after all points."""
    model = rounded_model(tokens=tokens, **shape)
    loops = model.loop.most_loops or LOOPS
    generator = torch.Generator().manual_seed(2)
    xs = torch.randn(1, points, 5, generator=generator)
    ys = torch.randn(1, points, generator=generator)
    queries = Queries(torch.randn(1, 7, 5, generator=generator), torch.full((7,), points))
    expected = torch.cat([each for _, each in model.unroll(Batch(xs, ys), loops, queries)])
    asked = {
        "model": facts.model_facts(model, points=20),
        "xs": xs.flatten().tolist(),
        "ys": ys.flatten().tolist(),
        "queries": queries.xs.flatten().tolist(),
        "loops": loops,
    }
    found: Tensor = torch.tensor(ask(_ASK, asked))
    assert found.shape == (loops + 1, 7)
    assert expected.std() > 0.1
    assert (found - expected).abs().max() < 1e-4


@pytest.mark.parametrize(
    ("shape", "said"),
    [
        ({"block": "llama"}, "block must be gpt2 in a page, got llama"),
        ({"injection": "multiply"}, "injection must be add or none in a page, got multiply"),
        ({"prelude": 1}, "prelude must be 0 in a page, got 1"),
        ({"injection": "none", "lanes": 2}, "lanes must be 0 in a page, got 2"),
        (
            {"injection": "none", "connectivity": "LT"},
            "connectivity must be None in a page, got LT",
        ),
        ({"classes": 3}, "classes must be 0 or 2 in a page, got 3"),
        ({"halts": True}, "halts must be False in a page, got True"),
    ],
)
def test_what_the_engine_cannot_compute_is_refused(shape: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=rf"^model.{said}$"):
        facts.model_facts(Model(make_spec(**shape), empty=True), points=5)


_CURVES = """
const Engine = require(process.argv[1]);
const { task, xs, ys, asked } = JSON.parse(require("fs").readFileSync(0, "utf8"));
const found = [Engine.features(task, asked), Engine.bayes(task, xs, ys, asked)];
console.log(JSON.stringify(found.map((each) => [...each])));
"""


@needs_node
def test_features_and_ridge_are_those_of_the_task() -> None:
    """The thin line is the posterior mean, by which Python judges models too."""
    task = Curves(dims=7, noise_std=0.2)
    generator = torch.Generator().manual_seed(0)
    x, ys = torch.rand(2, 9, dtype=torch.float64, generator=generator) * 2 - 1
    asked = torch.linspace(-3, 3, 11, dtype=torch.float64)
    script = {
        "task": facts.curve_facts(task),
        "xs": x.tolist(),
        "ys": ys.tolist(),
        "asked": asked.tolist(),
    }
    features, means = map(torch.tensor, ask(_CURVES, script))
    assert torch.allclose(features.view(11, 7), task.features(asked).float(), atol=1e-5)
    pairs = torch.cat((x.expand(11, 9), asked[:, None]), dim=1)
    outputs = torch.cat((ys.expand(11, 9), torch.zeros(11, 1, dtype=torch.float64)), dim=1)
    prompts = Prompts(task.features(pairs), outputs)
    expected = task.posterior_mean(prompts, dims=7)[:, -1].float()
    assert torch.allclose(means, expected, atol=1e-4)


_TABLE = """
globalThis.Engine = require(process.argv[1]);
const Table = require(process.argv[1].replace("engine.js", "table.js"));
const { model, task, points, asked, loops } = JSON.parse(
  require("fs").readFileSync(0, "utf8"),
);
Engine.read(model).then((ready) => {
  const xs = Table.inputs(task, points, points);
  const queries = Table.inputs(task, points, asked);
  const answers = Table.contexts(task, points).map((ys) => {
    const found = [];
    for (const each of ready.unroll(xs, ys, queries)) {
      if (found.push(each) > loops) break;
    }
    return found;
  });
  const found = [...Table.ofBoth(answers), Table.logisticRegression(points, asked)];
  console.log(JSON.stringify(found.map((each) => [...each])));
});
"""


def rows_as_drawn(values: Tensor, labels: list[int]) -> list[dict[str, float]]:
    return [
        {"x": x, "y": y, "label": label}
        for (x, y), label in zip(values.tolist(), labels, strict=True)
    ]


@needs_node
@pytest.mark.parametrize("case", ["a table", "a constant column", "two rows", "cells cut off"])
def test_probabilities_are_those_of_the_estimator(case: str) -> None:
    """Of the classifier that ships, after each loop; the thin line is scikit-learn's."""
    generator = torch.Generator().manual_seed(3)
    count = 2 if case == "two rows" else 20
    rows = 2 * torch.randn(count, 2, dtype=torch.float64, generator=generator)
    if case == "a constant column":
        rows[:, 1] = 0.1
    if case == "cells cut off":
        rows[:, 0] *= 0.05
        rows[3, 0] = 3.0
    labels = (rows[:, 0] > rows[:, 0].median()).long().tolist()
    asked = 3 * torch.rand(30, 2, dtype=torch.float64, generator=generator) - 1.5
    estimator = LoopedClassifier(n_orders=1, device="cpu").fit(rows.numpy(), labels)
    order = context_rows(check_random_state(0), count, 40, 1, np.array(labels))[0]
    task = TablesPrior(dims=20)
    script = {
        "model": facts.model_facts(estimator._model, points=40, exact=True),
        "task": facts.table_facts(task),
        "points": [rows_as_drawn(rows, labels)[i] for i in order],
        "asked": rows_as_drawn(asked, [0] * len(asked)),
        "loops": 6,
    }
    *loops, solved = torch.tensor(ask(_TABLE, script))
    staged = [
        estimator._probabilities(each)[:, 1]
        for each in estimator._answers(asked.numpy(), staged=True)
    ]
    assert len(staged) == len(loops) - 1 == 6
    for found, expected in zip(loops[1:], staged, strict=True):
        assert np.abs(found.numpy() - expected).max() < 1e-4
    mean, std = rows.mean(0), rows.std(0, correction=0)
    std[std < 1e-9] = 1e9
    logistic = LogisticRegression(tol=1e-8).fit(((rows - mean) / std).numpy(), labels)
    expected = logistic.predict_proba(((asked - mean) / std).numpy())[:, 1]
    assert np.abs(solved.numpy() - expected).max() < 1e-4
