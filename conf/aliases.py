"""Names of our settings in other codes and papers, so that a wrong key is answered with the right
one."""

from collections.abc import Iterable

# Our settings (of run.py first, then of the small commands), each with its other names.
_NAMES: dict[tuple[str, ...], str] = {
    ("training.learning_rate", "learning_rate"): "lr rate eta step_size base_lr max_lr",
    ("training.batch_size", "batch_size"): "batch bs batchsize minibatch train_batch_size n_batch",
    ("training.steps", "steps"): (
        "epochs epoch iterations iters iter n_iter max_steps num_steps n_steps train_steps "
        "max_iters total_steps updates"
    ),
    ("training.optimizer",): "optim opt optimiser",
    ("training.weight_decay",): "wd l2 weightdecay",
    ("training.clip",): "grad_clip clip_grad clip_grad_norm max_grad_norm gradient_clip",
    ("training.warmup",): "warmup_steps warmup_iters",
    ("training.shards",): "grad_accum gradient_accumulation micro_batches microbatches",
    ("training.checkpoint_every",): "save_every save_steps save_interval checkpoint_interval",
    ("training.snapshots",): "snapshot_steps snapshots_at keep_checkpoints checkpoint_steps",
    ("training.jacobian_penalty",): "jac_reg jac_weight jac_loss_weight jacobian_reg",
    ("model.n_embd",): (
        "hidden hidden_size hidden_dim hidden_dims width d_model dmodel n_embed embed_dim "
        "embedding_dim emb_dim channels model_dim"
    ),
    ("model.n_layer",): "layers n_layers num_layers depth blocks n_blocks nlayers",
    ("model.n_head",): "heads n_heads num_heads nhead nheads attention_heads",
    ("model.n_positions",): "max_len max_length block_size max_positions max_seq_len",
    ("model.n_kv",): "n_kv_heads kv_heads num_kv_heads n_kv_head",
    ("model",): "arch architecture family network net",
    ("task",): "problem function function_class dataset",
    ("task.dims",): "dim dimension dimensions d n_dims n_dim input_dim features n_features",
    ("task.points", "contexts"): (
        "k n_points num_points examples n_examples shots n_shots pairs context context_length "
        "seq_len sequence_length length"
    ),
    ("task.noise_std",): "noise sigma noise_level std",
    ("task.distinct_prompts",): "n_prompts num_prompts",
    ("task.distinct_functions",): "num_tasks n_tasks task_diversity n_functions num_functions",
    ("loops.b", "loops"): "n_loops num_loops loop recurrences recurrence n_loop",
    ("loops.T",): "window n_window loss_loops",
    ("evaluation.resamples", "resamples"): "bootstrap n_bootstrap bootstraps n_resamples",
    ("seed", "seeds"): "random_seed rng manual_seed random_state",
    ("seeds", "seed"): "n_seeds num_seeds",
    ("device",): "gpu cuda cpu accelerator devices",
    ("precision",): "dtype amp fp16 bf16 half mixed_precision",
    ("folder", "data_dir"): "output out out_dir output_dir save_dir dir log_dir workdir logdir",
    ("run",): "path ckpt model_path run_dir",
    ("jobs",): "at_once workers n_jobs num_workers processes n_workers threads",
}
_ALIASES: dict[str, tuple[str, ...]] = {
    alias: names for names, aliases in _NAMES.items() for alias in aliases.split()
}
_SHOWN = ("figures.", "tables.")


def resolve_alias(key: str, names: Iterable[str]) -> str | None:
    """The setting among `names` that `key` is another name of: the same name in another group, or
    its name in other codes. One of the key's own group is preferred, then one of a run before one
    of how it is shown (`width` is a model's); None where there is none."""
    group, _, last = key.rpartition(".")
    last = last.replace("-", "_").lower()
    options = list(names)
    matches = [name for alias in (last, *_ALIASES.get(last, ())) for name in _named(alias, options)]
    in_group = [name for name in matches if group and name.startswith(f"{group}.")]
    of_runs = [name for name in matches if not name.startswith(_SHOWN)]
    return next(iter([*in_group, *of_runs, *matches]), None)


def _named(alias: str, options: list[str]) -> list[str]:
    """The options of this name, then those that have it in a group."""
    exact = [name for name in options if name.lower() == alias.lower()]
    return exact + [n for n in options if n.rpartition(".")[2].lower() == alias.lower()]
