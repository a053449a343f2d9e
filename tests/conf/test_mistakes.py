"""Every mistake in an argument: one line that names the key, exit 2, nothing written."""

from __future__ import annotations

from pathlib import Path

import pytest

from looplab import main as run
from tests.conftest import HOME, Wandb, printed

# The words given, and what the one line must contain.
MISTAKES = [
    ("training.stps=5", "training.stps is not a setting; did you mean 'training.steps'"),
    ("steps=5", "did you mean 'training.steps'"),
    ("taks=linear", "taks is not a setting; did you mean 'task'"),
    ("task=linaer", "task cannot be 'linaer'; did you mean 'linear'"),
    ("task=relu", "task cannot be 'relu'; did you mean 'relu_network'"),
    ("model=looped_", "model cannot be 'looped_'; did you mean 'looped'"),
    ("scale=huge", "scale cannot be 'huge'; expected one of medium, paper, small"),
    ("action=trian", "action cannot be 'trian'; did you mean 'train'"),
    ("precision=bf61", "precision cannot be 'bf61'; did you mean 'bf16'"),
    ("backend=tritn", "backend cannot be 'tritn'; did you mean 'triton'"),
    ("backend=cuda", "backend cannot be 'cuda'; expected one of auto, compile, cpu, eager, triton"),
    ("bakend=eager", "bakend is not a setting; did you mean 'backend'"),
    ("device=cpu backend=triton", "backend cannot be triton on cpu: it needs an NVIDIA GPU"),
    ("device=cpu backend=compile", "backend cannot be compile on cpu: it needs a C++ compiler"),
    ("action=evaluate run=RUN backend=eager", "backend has no meaning with action=evaluate"),
    ("linear", "'linear' is not of the form key=value"),
    ("--task=linear", "is not of the form key=value"),
    ("+task.extra=1", "is not of the form key=value"),
    ("task.name=linear", "task.name is chosen by task="),
    ("training=3", "training is a group of settings"),
    ("training.steps=many", "training.steps must be a whole number, got 'many'"),
    ("training.steps=1.5", "training.steps must be a whole number, got 1.5"),
    ("training.steps=true", "training.steps must be a whole number, got True"),
    ("training.learning_rate=fast", "training.learning_rate must be a number"),
    ("training.learning_rate=0", "training.learning_rate must be above 0"),
    ("training.learning_rate=nan", "training.learning_rate must be above 0"),
    ("training.weight_decay=inf", "training.weight_decay must be at least 0"),
    ("training.beta2=1", "training.beta2 must be below 1"),
    ("training.decay=1.5", "training.decay must be at most 1"),
    ("training.decay_to=1.5", "training.decay_to must be at most 1"),
    ("training.decay_to=-1", "training.decay_to must be at least 0"),
    (
        "training.decay=0 training.decay_to=0.1",
        "training.decay_to has no meaning with training.decay=0",
    ),
    ("training.epsilon=0", "training.epsilon must be above 0"),
    ("training.muon_rate=0", "training.muon_rate must be above 0"),
    ("training.muon_rate=inf", "training.muon_rate must be above 0 and finite"),
    ("training.optimizer=moun", "training.optimizer cannot be 'moun'; did you mean 'muon'"),
    ("training.shards=7", "training.shards must divide training.batch_size"),
    ("training.batch_size=0", "training.batch_size must be at least 1"),
    ("loops.b=0", "loops.b must be at least 1"),
    ("loops.T=-1", "loops.T must be at least 1"),
    ("model.n_head=5", "model.n_embd must be a multiple of model.n_head=5"),
    ("task.points=500", "task.points is 500, more than the model has positions"),
    ("task.points=1", "task.points must be at least 2"),
    ("task.sparsity=0", "task.sparsity must be at least 1"),
    ("task.sparsity=99", "task.sparsity is 99, but there are"),
    ("task.sparsity=two", "task.sparsity must be a whole number"),
    ("task.depth=3", "task.depth is not a setting"),
    ("task.distinct_prompts=-1", "task.distinct_prompts must be at least 0"),
    ("curriculum.dims.start=99", "curriculum.dims.start is 99, beyond the end"),
    ("curriculum.dims.intervals=[]", "curriculum.dims.intervals must hold"),
    ("curriculum.dims.intervals=[0]", "curriculum.dims.intervals must be at least 1"),
    ("model=tied model.injection=add", "model.injection cannot be 'add' with model=tied"),
    ("model=standard model.lanes=2", "model.lanes has no meaning with model=standard"),
    ("model.connectivity=LT model.lanes=2", "model.injection cannot be 'add' with model.connec"),
    ("model=FLT model.injection=multiply", "model.injection cannot be 'multiply' with model.con"),
    ("model=FLT model.prelude=1", "model.prelude has no meaning with model.connectivity=FLT"),
    ("model=FLT model.connectivity=FTL", "model.connectivity cannot be 'FTL'; did you mean 'FLT'"),
    ("model.lanes=2", "model.injection cannot be 'add' with model.lanes"),
    ("model=unnormed model.injection=concat", "model.injection cannot be 'concat' with model.norm"),
    ("model=unnormed loops.grad_loops=half", "loops.grad_loops must be all, got half: gradients"),
    ("loops.grad_loops=null", "loops.grad_loops must be a whole number or window"),
    (
        "recipe=paper training.muon_rate=0.1",
        "training.muon_rate has no meaning with training.optimizer=adamw",
    ),
    ("recipe=fsat", "recipe cannot be 'fsat'; did you mean 'fast'"),
    ("training.ema_decay=1", "training.ema_decay must be below 1"),
    ("training.init_std=0", "training.init_std must be above 0"),
    ("training.targets=mean", "training.targets cannot be 'mean'"),
    (
        "model.attention=sliding model.pattern=SL model.n_layer=1",
        "model.pattern SL makes no layer of 1 short",
    ),
    (
        "model.attention=sliding model.pattern=SL model.n_layer=2",
        "model.attention cannot be sliding: a window of 50 tokens",
    ),
    ("model=unnormed model.lanes=2", "model.norm must be in_loop with model.lanes"),
    ("model=unnormed model.injection=multiply", "model.injection cannot be 'multiply' with model"),
    ("model=unnormed model.injection=add", "model.residual_scaling must be linear with model.norm"),
    (
        "model.residual_factor=2",
        "model.residual_factor has no meaning with model.residual_scaling=none",
    ),
    (
        "model.residual_scaling=factored model.residual_factor=0",
        "model.residual_factor must be above 0 and finite",
    ),
    ("model.n_kv=2", "model.n_kv has no meaning with model.attention=full"),
    ("model.attention=grouped", "model.n_kv must be given with model.attention=grouped"),
    ("model.attention=grouped model.n_kv=3", "model.n_kv must divide model.n_head="),
    ("model.attention=latent", "model.rank must be given with model.attention=latent"),
    ("model.attention=sliding model.pattern=SXL", "model.pattern must be made of the letters S"),
    ("model.block=llama model.n_head=32 model.n_embd=32", "model.n_head leaves heads of 1 numb"),
    ("model.prelude=-1", "model.prelude must be at least 0"),
    ("model=standard loops.b=3", "loops.b has no meaning with model=standard"),
    ("model=tied loops.T=3", "loops.T has no meaning with model=tied"),
    ("model=tied loops.grad_loops=half", "loops.grad_loops has no meaning with model=tied"),
    ("model=tied loops.sampling=uniform", "loops.sampling has no meaning with model=tied"),
    ("model=standard loops.grad_loops=all", "loops.grad_loops has no meaning with model=standard"),
    ("loops.sampling=unifrom", "loops.sampling cannot be 'unifrom'; did you mean 'uniform'"),
    (
        "loops.sampling=uniform curriculum.loops.start=4",
        "curriculum.loops.start must be null with loops.sampling=uniform, got 4: loops are drawn",
    ),
    (
        "loops.sampling=uniform curriculum.loops.inc=4",
        "curriculum.loops.inc has no meaning with loops.sampling=uniform",
    ),
    (
        "loops.sampling=uniform curriculum.loops.intervals=[9]",
        "curriculum.loops.intervals has no meaning with loops.sampling=uniform",
    ),
    ("loops.grad_loops=hlaf", "loops.grad_loops must be a whole number or window or half or all"),
    ("loops.T=4 loops.grad_loops=3", "loops.grad_loops must be at least 4, the loops that count"),
    (
        "loops.b=12 loops.T=7 loops.grad_loops=half",
        "loops.grad_loops cannot be half: that is 6 of loops.b=12, but 7 loops count in the loss",
    ),
    (
        "model.lanes=2 model.injection=none loops.b=12 loops.T=4",
        "loops.grad_loops must be all, got window",
    ),
    (
        "model.lanes=2 model.injection=none loops.grad_loops=all loops.sampling=uniform",
        "model.lanes cannot be used with loops.sampling=uniform: lanes have parameters",
    ),
    ("evaluation.loops=0", "evaluation.loops must be at least 1"),
    ("evaluation.loops=atuo", "evaluation.loops must be a whole number or auto, got 'atuo'"),
    ("evaluation.halt_by=0", "evaluation.halt_by must be at least 1, got 0"),
    ("evaluation.tolerance=0", "evaluation.tolerance must be above 0 and finite"),
    ("evaluation.tolerance=inf", "evaluation.tolerance must be above 0 and finite"),
    ("evaluation.seed=1e30", "evaluation.seed must be below 2^62"),
    ("seed=99999999999999999999", "seed must be below 2^62"),
    (
        "action=compare runs=[RUN,RUN] evaluation.shifts=all",
        "evaluation.shifts has no meaning with",
    ),
    ("evaluation.halt_on=loss", "evaluation.halt_on cannot be 'loss'"),
    ("evaluation.shifts=noisy", "evaluation.shifts cannot be 'noisy'; did you mean 'noise'"),
    ("evaluation.shifts=[all,scaled_x]", "evaluation.shifts cannot be 'scaled_x'; did you mean"),
    ("evaluation.baselines=[laso]", "evaluation.baselines cannot be 'laso'; did you mean 'lasso'"),
    ("task=decision_tree evaluation.baselines=bayes", "evaluation.baselines cannot hold bayes"),
    ("task.sparsity=9 task.dims=30 evaluation.baselines=bayes", "14,307,150 supports"),
    ("seed=-1", "seed must be at least 0"),
    ("seed=0,1", "seed has several values: run them one by one with -m"),
    ("training.steps=[1", "cannot be read"),
    ("action=evaluate", "run must name what to evaluate"),
    ("action=evaluate run=nowhere", "nowhere is no run folder: it holds no config.yaml"),
    ("run=somewhere", "run is for action=evaluate"),
    ("checkpoint=state.pt", "checkpoint is for action=import"),
    ("action=import", "checkpoint must name what to import"),
    ("action=import checkpoint=nowhere.pt", "checkpoint is no file: nowhere.pt"),
    ("action=import checkpoint=.", "checkpoint is no file: ."),
    ("action=import checkpoint=a.pt seed=1", "seed has no meaning with action=import"),
    ("action=import checkpoint=a.pt run=RUN", "run is for action=evaluate"),
    ("action=import checkpoint=a.pt scale=paper", "scale has no meaning with action=import"),
    ("action=import checkpoint=a.pt training.clip=1", "training.clip has no meaning with"),
    ("action=import checkpoint=a.pt loops.start=1", "loops.start is not a setting"),
    ("action=import checkpoint=a.pt task.dept=1", "did you mean 'task.depth'"),
    ("action=import checkpoint=a.pt model=lopoed", "model cannot be 'lopoed'; did you mean"),
    ("action=import checkpoint=a.pt training=1", "training is a group of settings"),
    ("action=import checkpoint='a", "checkpoint is no file: 'a"),
    ("action=imprt checkpoint=a.pt", "action cannot be 'imprt'; did you mean 'import'"),
    ("runs=[a,b]", "runs is for action=compare"),
    ("action=evaluate runs=[a,b]", "runs is for action=compare"),
    (
        "action=compare",
        "runs must name what to compare: 'runs=[runs/<name>,runs/<name>]'",
    ),
    ("action=evaluate run=[a,b]", "[a,b] is no run folder"),
    ("action=import checkpoint=[a.pt,b.pt]", "checkpoint is no file: [a.pt,b.pt]"),
    ("action=compare run=RUN", "run is for action=evaluate"),
    ("action=compare runs=[nowhere,RUN]", "nowhere is no run folder: it holds no config.yaml"),
    ("action=compare runs=[RUN]", "runs must name at least two run folders, got 1"),
    ("action=compare runs=[RUN,RUN] seed=1", "seed has no meaning with action=compare"),
    ("wandb=onlin", "wandb cannot be 'onlin'; did you mean 'online'"),
    ("wandb=offline", "wandb needs wandb, which is not installed"),
    ("device=abacus", "device cannot be 'abacus' on this machine"),
    ("device=cpu precision=tf32", "precision cannot be tf32 on cpu"),
]


@pytest.mark.parametrize(("words", "expected"), MISTAKES, ids=[words for words, _ in MISTAKES])
def test_a_mistake_is_one_line_and_writes_nothing(
    words: str,
    expected: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    wandb: Wandb,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    if words == "wandb=offline":
        wandb(None)
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert run.main(words.split()) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("run.py: ")
    assert err.count("\n") == 1
    assert expected in err
    assert list(tmp_path.iterdir()) == []


def test_a_mistake_and_help_are_answered_without_torch(tmp_path: Path) -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import run\n"
        "assert run.main(['training.stps=5']) == 2\n"
        "assert run.main(['task.sparsity=99']) == 2\n"
        "assert run.main(['backend=tritn']) == 2\n"
        "assert run.main(['action=evaluate', 'run=nowhere']) == 2\n"
        "assert run.main(['action=import', 'checkpoint=nowhere.pt']) == 2\n"
        "assert run.main(['--help']) == 0\n"
        "assert 'torch' not in sys.modules\n"
    )
    said = printed("-c", code, HOME, cwd=tmp_path)
    for word in ("sparse_linear", "looped", "paper", "loops.b", "task.sparsity"):
        assert word in said


def test_one_bad_member_keeps_a_grid_from_starting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run.main(["-m", "loops.b=4,0"]) == 2
    assert "loops.b must be at least 1" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
