"""All that one evaluation measures of a language model: the held-out text, and the texts of
`task.eval`."""

from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import torch
from torch import Tensor

from looplab.conf.mistakes import ConfigError
from looplab.conf.schema import EvaluationConfig
from looplab.models.flops import pass_costs
from looplab.tasks import Prompts, Task
from looplab.tasks.language import Language
from looplab.tasks.language.documents import eval_files, read_documents
from looplab.tasks.language.store import Tokens
from looplab.tasks.language.tokens import Lengths
from looplab.training.assemble import last_stage
from looplab.training.run_folder.run import Run
from looplab.training.validation import evaluation_prompts

from ..baselines import TRIED, Solver, solvers, try_solver
from ..bootstrap import Band, Floats
from ..evaluation import Size, Texts, TextScores
from ..evaluator import Evaluator, baseline_names, named_solvers
from ..kept import Arrays, digest
from ..normalise import check_normalise
from .scores import (
    bits_per_byte,
    blocks,
    nats_by_loop,
    running_blocks,
    running_perplexity,
    text_result,
    tokens_of,
)

_MOST = 1 << 62  # tokens


def evaluate_language(evaluator: Evaluator) -> tuple[Texts, Arrays]:
    """Score every text at 1 to `evaluation.max_loops` loops; with `held_out` [blocks, loops], the
    bits per byte of the held-out text's blocks. Raises ConfigError where a file cannot be
    read."""
    task = evaluator.task
    assert isinstance(task, Language)
    lengths = task.corpus.lengths
    held_out = _Text(evaluator, "held_out", task.corpus.tokens["held_out"], lengths)
    texts = {"held_out": held_out.result()}
    most = max(evaluator.settings.tokens or _MOST, evaluator.run.config.task.points)
    for path in eval_files(task.eval):
        documents = read_documents(str(path), task.column, "task.eval")
        tokens, bytes_of_tokens = tokens_of(documents, task.tokenizer, most)
        text = _Text(evaluator, path.name, tokens, bytes_of_tokens)
        texts[path.name] = replace(text.result(), running_perplexity=text.running_perplexity())
    bits = bits_per_byte(held_out.nats, held_out.prompts, lengths)
    return Texts(size=_size(evaluator.run), texts=texts), {"held_out": bits}


def _size(run: Run) -> Size:
    """A model's parameters, and the FLOPs of its training."""
    model = run.model
    tokens = run.config.task.points
    parameters = sum(parameter.numel() for parameter in model.parameters())
    backbone = model.backbone_parameters()
    costs = pass_costs(model, tokens)
    last = last_stage(run.config, run.task)
    flops = costs.of_step(last.loops, last.grad_loops, last.window)
    # A standard model's loops are its layers: one pass through all of them.
    once = model.spec.n_layer if model.spec.family == "standard" else 1
    flops_of_one_loop = costs.of_step(once, once, window=1)
    return Size(
        backbone=backbone,
        embedding=parameters - backbone,
        flops=flops / tokens,
        flops_of_one_loop=flops_of_one_loop / tokens,
    )


def digests(files: Sequence[Path]) -> dict[str, str]:
    """The sha256 of files, by name. Raises ConfigError for one that cannot be read."""
    try:
        return {path.name: sha256(path.read_bytes()).hexdigest() for path in files}
    except OSError as error:
        raise ConfigError("task.eval", f"cannot be read: {error}") from None


class _Text:
    """The tokens of a text by name, in blocks as long as the prompts of training, and the bytes
    that each token stands for."""

    def __init__(self, evaluator: Evaluator, name: str, tokens: Tokens, lengths: Lengths) -> None:
        assert isinstance(evaluator.task, Language)
        self.evaluator = evaluator
        self.name = name
        self.tokens = tokens
        self.lengths = lengths
        self.task = evaluator.task
        self.tokenizer = evaluator.task.tokenizer
        self.length = evaluator.run.config.task.points
        self.most = evaluator.settings.tokens or _MOST
        self.prompts = blocks(tokens, self.tokenizer.start, self.length, self.most, name)
        # A start token between documents is read, but its prediction is not scored: [blocks, n].
        self.counted = torch.from_numpy(lengths > 0)[self.prompts.ys]
        self.nats = self._nats(f"text-{name}", self.prompts, self.counted)

    def result(self) -> TextScores:
        """Its scores, and the solvers' bits per byte of the same blocks."""
        scores = self._scores(self.nats)
        bands = {}
        # Of no loops: their nats are one column, and so is each band.
        for name in baseline_names(self.task, self.evaluator.settings):
            ((label, solve),) = solvers(name, self.task).items()
            bands[label] = self._scores(self._solver_nats(name, solve)).bits_per_byte
        return replace(scores, solvers=bands or None)

    def running_perplexity(self) -> Band | None:
        """The perplexity in running blocks; None of a text that fills none."""
        prompts = running_blocks(self.tokens, self.length, self.most)
        if not len(prompts):
            return None
        everything = torch.ones_like(prompts.ys, dtype=torch.bool)
        nats = self._nats(f"running-{self.name}", prompts, everything)
        return running_perplexity(nats, self.length, self.evaluator.settings)

    def _scores(self, nats: Floats) -> TextScores:
        settings = self.evaluator.settings
        return text_result(nats, self.prompts, self.tokenizer, self.lengths, settings)

    def _solver_nats(self, name: str, solve: Solver) -> Floats:
        """A solver's nats of each block, [blocks, 1]."""
        prompts = digest(self.prompts.xs, self.prompts.ys)
        content = {"prompts": prompts, "data": self.task.data.identity()}

        def compute(rows: slice) -> Arrays:
            nats = solve(self.task, self.prompts[rows]) * self.counted[rows].numpy()
            return {"nats": nats.sum(1, keepdims=True)}

        name = f"text-{self.name}-{name}"
        return self.evaluator.rows(name, content, len(self.prompts), compute, solve)["nats"]

    def _nats(self, name: str, prompts: Prompts, counted: Tensor) -> Floats:
        """By block and loop, [blocks, loops]."""
        evaluator = self.evaluator
        loops = evaluator.settings.max_loops
        assert loops is not None

        def compute(rows: slice) -> Arrays:
            return nats_by_loop(evaluator.device_model, prompts[rows], loops, counted[rows])

        content = {"prompts": digest(prompts.xs, prompts.ys), "loops": loops}
        return evaluator.rows(name, content, len(prompts), compute)["nats"]


def check_evaluation(task: Task, settings: EvaluationConfig, points: int) -> None:
    """Raises ConfigError for a solver that the task has not, or that cannot be one; and as
    `check_normalise`. So it does for a text of `task.eval` that is shorter than `points` tokens,
    and for a file there that cannot be read."""
    check_normalise(settings.normalise, task)
    for name in baseline_names(task, settings):
        for solve in named_solvers(name, task).values():
            try_solver(solve, task, evaluation_prompts(task, TRIED, points, settings.seed))
    if isinstance(task, Language):
        for path in eval_files(task.eval):
            documents = list(read_documents(str(path), task.column, "task.eval"))
            tokens, _ = tokens_of(documents, task.tokenizer, points)
            blocks(tokens, task.tokenizer.start, points, points, path.name)
