"""A table chooses the variants of the kernels: the nearest row of the same card, precision and
widths, else cuBLAS; a damaged one is said; and `action=tune` writes what is chosen from."""

import json
from concurrent.futures import BrokenExecutor, ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from looplab.conf.mistakes import ConfigError, RunError
from looplab.experiments import kernel_times, tune
from looplab.models.kernels.choice import (
    BY_CUBLAS,
    SHIPPED,
    Choice,
    Row,
    Shape,
    choose,
    read_table,
)
from looplab.models.kernels.variants import VARIANTS, Variants
from looplab.training.device import capability, shape_of
from tests.conftest import own_table
from tests.models.kernels.conftest import GPU
from tests.training.tiny import tiny

PAPER = Shape(256, 8, 1024, prompts=64, tokens=81)
SPLIT = Variants(mlp_forward="split")


def row(rows: int, variants: Variants, **changes: Any) -> Row:
    """A row of the paper's widths on an H100 in bf16."""
    place = {"capability": "9.0", "precision": "bf16", "n_embd": 256, "hidden": 1024, "rows": rows}
    return place | {"variants": asdict(variants), "backend": "triton"} | changes


def write(path: Path, *rows: Row) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"rows": rows}), encoding="utf-8")


def both_tables() -> list[Row]:
    return read_table(own_table()) + read_table(SHIPPED)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOPLAB_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize("precision", ["bf16", "tf32"])
@pytest.mark.parametrize("tokens", [81, 201])
def test_the_shipped_table_knows_the_papers_runs(tokens: int, precision: str) -> None:
    """And says of each of its rows on which steps it rests."""
    chosen = choose("9.0", precision, PAPER._replace(tokens=tokens), both_tables())
    assert (chosen.variants, chosen.backend) == (Variants(), "triton")
    for each in read_table(SHIPPED):
        steps = [times for what, times in each["milliseconds"].items() if what not in VARIANTS]
        assert steps
        assert all(times.keys() == {"triton", "compile"} for times in steps)


@pytest.mark.parametrize(
    ("capability", "precision", "shape"),
    [
        ("8.0", "bf16", PAPER),
        ("9.0", "fp32", PAPER),
        ("9.0", "bf16", PAPER._replace(n_embd=128)),
        ("9.0", "bf16", PAPER._replace(hidden=512)),
        ("9.0", "bf16", PAPER._replace(prompts=1)),
    ],
)
def test_what_is_in_no_table_is_made_by_cublas(
    capability: str, precision: str, shape: Shape
) -> None:
    chosen = choose(capability, precision, shape, both_tables())
    assert set(asdict(chosen.variants).values()) == {"cublas"}
    assert chosen.backend == "triton"


def test_the_nearest_row_is_chosen_and_of_equals_the_users() -> None:
    rows = [row(1024, SPLIT), row(4096, BY_CUBLAS, backend="compile"), row(4096, SPLIT)]

    def at(number: int) -> Choice:
        return choose("9.0", "bf16", PAPER._replace(prompts=1, tokens=number), rows)

    # Most products of mixed precision are in bf16.
    assert choose("9.0", "mixed", PAPER._replace(prompts=1, tokens=1500), rows) == at(1500)
    assert at(1500).variants == at(600).variants == SPLIT
    assert (at(5184).variants, at(5184).backend) == (BY_CUBLAS, "compile")
    assert at(7000).variants == BY_CUBLAS
    assert at(5184).table == at(7000).table != choose("9.0", "bf16", PAPER, rows[:1]).table
    write(own_table(), row(4096, SPLIT))
    assert choose("9.0", "bf16", PAPER, both_tables()).variants == SPLIT


@pytest.mark.parametrize(
    "change",
    [
        {"backend": "eager"},
        {"rows": 0},
        {"rows": "4096"},
        {"variants": {"mlp_forward": "split"}},
        {"variants": asdict(Variants(qkv_forward="split"))},
        {"variants": None},
    ],
)
def test_a_damaged_row_is_said_with_its_file(change: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "table.json"
    values = row(4096, SPLIT)
    path.write_text(json.dumps({"rows": [values]}), encoding="utf-8")
    assert read_table(path) == [values]
    path.write_text(json.dumps({"rows": [values | change]}), encoding="utf-8")
    with pytest.raises(RunError, match=r"table\.json, a table of kernels' variants, .* is damaged"):
        read_table(path)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"rows": 1}', '{"rows": [1]}'])
def test_so_is_a_damaged_file(text: str) -> None:
    write(own_table())
    own_table().write_text(text, encoding="utf-8")
    with pytest.raises(RunError, match=str(own_table())):
        both_tables()


def test_another_variant_is_taken_where_it_is_ahead_by_enough() -> None:
    assert tune.fastest({"fused": 1.0, "cublas": 0.98}, "fused") == "fused"
    assert tune.fastest({"fused": 1.0, "split": 0.96, "cublas": 0.98}, "fused") == "split"
    assert tune.fastest({"fused": 0.96, "cublas": 1.0}, "cublas") == "fused"
    assert tune.fastest({"cublas": 9.0}, "fused") == "cublas"
    assert tune.fastest({}, "fused") == "fused"


def test_what_follows_a_fault_is_timed_by_another_process(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    starts = []

    class Process(ThreadPoolExecutor):
        """In the place of one."""

        def __init__(self, *_: object) -> None:
            super().__init__(1)
            starts.append(self)

    def time(*asked: object) -> float:
        if asked[-1] == "split":
            raise BrokenExecutor("a fault")
        return float(len(starts))

    monkeypatch.setattr(kernel_times, "ProcessPoolExecutor", Process)
    monkeypatch.setattr(kernel_times, "_time", time)
    times = kernel_times.variant_times(PAPER, torch.device("cpu"), kernel_times.compute_of("fp32"))
    assert times["qkv_forward"] == {"fused": 1.0, "cublas": 1.0}
    assert times["mlp_forward"] == {"fused": 1.0, "cublas": 2.0}
    assert times["mlp_backward"] == {"fused": 2.0, "cublas": 3.0}
    assert capsys.readouterr().out.count("by split: failed, a fault") == 2


def test_tune_writes_what_a_run_then_chooses(tmp_path: Path, device: torch.device) -> None:
    """Beside the rows that were there, in the place of its own; interpreted on a CPU."""
    config = replace(tiny(tmp_path), device=device.type, precision="fp32")
    config = replace(config, model=replace(config.model, n_embd=32))
    shape = shape_of(config)
    card = capability(device)
    mine = row(64, SPLIT) | {"capability": card, "precision": "fp32"}
    mine |= {"n_embd": 32, "hidden": 128}
    write(own_table(), row(4096, SPLIT), mine)
    said = tune.tune(config)
    assert str(own_table()) in said
    assert ("mean nothing" in said) == (device.type == "cpu")
    written, kept = read_table(own_table())
    assert kept == row(4096, SPLIT)
    assert written["rows"] == mine["rows"]
    for name, allowed in VARIANTS.items():
        assert tuple(written["milliseconds"][name]) == allowed
    chosen = choose(card, "fp32", shape, both_tables())
    assert asdict(chosen.variants) == written["variants"]


def test_tune_needs_a_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "0")
    with pytest.raises(ConfigError, match=r"^action cannot be tune on cpu: it needs an NVIDIA GPU"):
        tune.tune(tiny(tmp_path))


def test_nor_does_it_tune_what_kernels_do_not_compute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    problem = "no kernels on cpu" if GPU else "kernels need n_embd to be a multiple of 32"
    with pytest.raises(ConfigError, match=problem):
        tune.tune(tiny(tmp_path))
    with pytest.raises(ConfigError, match="precision cannot be mixed with action=tune"):
        tune.tune(replace(tiny(tmp_path), precision="mixed"))
