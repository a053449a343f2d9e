"""The card of a model that travels: its README.md."""

import shlex

from looplab.conf.command import as_word
from looplab.conf.words import as_typed
from looplab.evaluation.evaluate_run import KIND
from looplab.evaluation.evaluation import FORMAT, Evaluation
from looplab.evaluation.evaluator import weights_digest
from looplab.evaluation.plain import Content
from looplab.evaluation.results import by_loop_name, unit
from looplab.tasks.language import Language
from looplab.training.assemble import trained_loops
from looplab.training.run_folder.files import read_record
from looplab.training.run_folder.run import Run

from .report import report

_CARD = """\
---
library_name: looplab
tags: [looped-transformer, {tag}]
---

# {task}: {model}

{steps:,} steps on `{data}`, seed {seed}, b = {b} loops. config.yaml has every setting.

{command}

## Use

{use}

## Numbers

{numbers}
"""
_PAIRS = """\
```python
import torch
from looplab import Prompts, from_pretrained

run = from_pretrained("PATH or USER/NAME")
xs, ys = torch.randn(4, {points}, {dims}), torch.ones(4, {points})  # [B, n, {dims}], [B, n]
predictions = run.model(Prompts(xs, ys), loops={b})  # [1, B, n], for each pair from those before it
```"""
_TEXT = """\
```python
from transformers import AutoModelForCausalLM, AutoTokenizer

name = "PATH or USER/NAME"
tokenizer = AutoTokenizer.from_pretrained(name, trust_remote_code=True)
model = AutoModelForCausalLM.from_pretrained(name, trust_remote_code=True)
tokens = tokenizer("Call me", return_tensors="pt")
print(tokenizer.decode(model.generate(**tokens, max_length={length})[0]))
```

This needs the package looplab, whose `from_pretrained` reads the model, too, and whose `generate`
has a cache: here each new token reads the whole text. It reads at most {positions} tokens, of
which the start token, {start}, is the first; in a batch texts are padded on either side, and
`attention_mask` says where. `loops=` makes other than {b} loops. Whole texts in
lm-evaluation-harness (`--model hf`) take `add_bos_token=False`."""
_LENGTH = 32  # of the text with its continuation, in the example


def card(run: Run, made_with: Content) -> str:
    """The card, in Markdown: what the model is, how it was trained (`made_with` has the command)
    and its use. It has the numbers of the last evaluation, where there is one of these weights."""
    task = run.task
    words = shlex.split(as_typed(made_with.get("command")))
    # A folder of the machine that trained it says nothing to others.
    words = [word for word in words if not word.startswith("folder=")]
    command = f"```\n{shlex.join(words)}\n```" if words else "The command was not kept."
    return _CARD.format(
        tag="language-model" if task.is_text else "in-context-learning",
        task=task.name,
        model=run.model.describe(),
        steps=run.step,
        data=_data(run),
        seed=run.config.seed,
        b=trained_loops(run.config),
        command=command,
        use=_use(run),
        numbers=_numbers(run),
    )


def _data(run: Run) -> str:
    """The words of a command that ask for the run's task."""
    task = run.config.task
    words = [f"task={run.task.name}"]
    values = {"dims": task.dims, "points": task.points} | dict(task.settings)
    for key, value in values.items():
        if value != "":
            words.append(f"task.{key}={as_word(value)}")
    return shlex.join(words)


def _use(run: Run) -> str:
    """The code that uses the model, by kind of task."""
    b = trained_loops(run.config)
    if not isinstance(run.task, Language):
        return _PAIRS.format(b=b, dims=run.config.task.dims, points=run.config.task.points)
    start = run.task.tokenizer.start
    positions = run.model.spec.n_positions
    return _TEXT.format(b=b, positions=positions, length=min(_LENGTH, positions), start=start)


def _numbers(run: Run) -> str:
    """The last evaluation of these weights, or the command that makes one."""
    content = read_record(run.path / f"{KIND}.json", KIND).content or {}
    # Numbers of other weights must not stand on the card of these.
    if content.get("format") != FORMAT or content["weights"] != weights_digest(run.model):
        return "Not evaluated: `python run.py action=evaluate run=PATH`."
    result = Evaluation.read(content)
    errors = result.by_loop.model
    mean = errors["mean"][result.b - 1]
    low = errors["low"][result.b - 1]
    high = errors["high"][result.b - 1]
    name = by_loop_name(result.error, result.by_examples.k[-1])
    loops = f"{result.b} {unit(result.family)}s"
    return (
        f"{name} after {loops}, {result.prompts:,} prompts: {mean:.4g} "
        f"(90 %: {low:.4g} to {high:.4g})\n\n{report(result, 'markdown')}"
    )
