"""Results as dataclasses: what a file holds comes back whole, and older files are read."""

import json
from dataclasses import replace

from looplab.conf.schema import EvaluationConfig
from looplab.evaluation.comparison import Comparison
from looplab.evaluation.evaluation import Evaluation
from looplab.evaluation.verdict import Verdict
from looplab.show.compare import compare
from looplab.show.evaluate import evaluate
from looplab.show.verdicts import verdict_cells
from looplab.training import Run

SETTINGS = EvaluationConfig(prompts=16, resamples=20, baselines=("averaging",))


def test_an_evaluation_and_a_comparison_come_back_whole(tiny_run: Run) -> None:
    settings = replace(SETTINGS, loops="auto", shifts=("noise",), normalise="scale")
    content = json.loads(json.dumps(evaluate(tiny_run, settings)))
    assert {"weights", "settings", "command", "key", "normalise"} <= content.keys()
    assert {"loops_used", "k"} <= content["shifts"]["noise"].keys()
    assert Evaluation.read(content).plain() == content
    compared = compare([tiny_run], SETTINGS, tiny_run.path.parent)
    assert Comparison.read(compared).plain() | {"path": compared["path"]} == compared


def test_a_verdict_of_an_older_file_is_read() -> None:
    older = {
        "claim": "a", "sentence": "A.", "source": "a paper", "quantity": "a ratio",
        "published": "0.98", "line": [0.9, 1.1], "holds_if": "within", "mean": 1.0, "low": 0.95,
        "high": None, "seeds": 2, "verdict": "not settled", "figure": "of a field that is gone",
    }  # fmt: skip
    cells = ["0.98", "1 (0.95 to ∞)", "0.9 to 1.1", "2", "not settled"]
    verdict = Verdict.read(older)
    assert verdict_cells(verdict) == cells
    del older["figure"]
    assert {key: verdict.plain()[key] for key in older} == older
