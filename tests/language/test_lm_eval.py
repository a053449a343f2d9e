"""lm-evaluation-harness asks our models: what it is told equals the model's own logits, read one by
one, and what its model `hf` says of an exported one; over files of JSON lines in a folder
`shared/data/lm_eval` in or beside the project (or $LM_EVAL_DATA), offline."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from looplab import main as run
from looplab.evaluation.load import load_run
from looplab.tasks import Prompts
from looplab.training import Run
from tests.conftest import HOME, printed
from tests.language.conftest import WORDS, offline, only_run

PLACES = (HOME / "shared" / "data" / "lm_eval", HOME.parent / "shared" / "data" / "lm_eval")
_POSITIONS = 48
_PAIRS = [
    ("the a sat", " on the mat"),
    ("the b sat on the ", "mat and saw"),  # its space goes to the continuation
    ("", "the c sat"),
    ("the d sat on the mat " * 9, "and saw the e."),  # too long
]
_TASKS = {
    "piqa": """
dataset_kwargs: {data_files: {test: FOLDER/piqa.jsonl}}
output_type: multiple_choice
doc_to_text: "{{query}}"
doc_to_choice: choices
doc_to_target: gold
metric_list: [{metric: acc}, {metric: acc_norm}]
""",
    "winogrande": """
dataset_kwargs: {data_files: {test: FOLDER/winogrande.jsonl}}
output_type: multiple_choice
doc_to_text: gold
doc_to_choice: context_options
doc_to_target: continuation
metric_list: [{metric: acc}]
""",
    "lambada": """
dataset_kwargs: {data_files: {test: FOLDER/lambada_openai.jsonl}}
output_type: loglikelihood
doc_to_text: "{{context}}"
doc_to_target: " {{continuation}}"
metric_list: [{metric: acc}, {metric: perplexity}]
""",
    "texts": """
dataset_kwargs: {data_files: {test: FOLDER/lambada_openai.jsonl}}
output_type: loglikelihood_rolling
doc_to_text: ""
doc_to_target: "{{context}}"
metric_list: [{metric: bits_per_byte}]
""",
}
_ASK = """
import json, sys
from lm_eval import simple_evaluate
from lm_eval.api.instance import Instance
from lm_eval.models.huggingface import HFLM
from lm_eval.tasks import TaskManager
from looplab.evaluation.lm_eval import LooplabLM

ours, asked = LooplabLM(run="it", batch_size=8, device="cpu"), sys.argv[1:]

def answers(model, *tasks):
    found = simple_evaluate(
        model, tasks=[f"our_{task}" for task in tasks], limit=5, log_samples=True,
        task_manager=TaskManager(include_path="tasks", include_defaults=False), bootstrap_iters=0,
    )
    return [
        float(response[0] if isinstance(response, (list, tuple)) else response)
        for task in tasks
        for sample in sorted(found["samples"][f"our_{task}"], key=lambda each: each["doc_id"])
        for (response,) in sample["resps"]
    ]

def hf(**options):
    return HFLM("it", trust_remote_code=True, device="cpu", batch_size=2, **options)

def texts(model):
    asked = [(text, {"until": ["zz"], "max_gen_toks": 6}) for text in ("the a sat", "a", "mat on")]
    return model.generate_until([Instance("any", {}, each, 0) for each in asked])

plain = hf()
assert plain.max_length == 2048
assert texts(plain) == texts(ours)
# It gives the start token itself before a whole text.
print(json.dumps([
    [answers(ours, *asked[:-1]), answers(plain, *asked[:-1])],
    [answers(ours, asked[-1]), answers(hf(add_bos_token=False), asked[-1])],
]))
"""


def _words(positions: int) -> list[str]:
    return [*(word for word in WORDS if "positions" not in word), f"model.n_positions={positions}"]


@pytest.fixture
def model() -> Run:
    """A finished run on bytes, with few positions."""
    pytest.importorskip("lm_eval", reason="lm_eval is not installed")
    assert run.main(_words(_POSITIONS)) == 0
    return load_run(only_run())


def _requests(*arguments: Any) -> list[Any]:
    from lm_eval.api.instance import Instance

    return [Instance("any", {}, each, index) for index, each in enumerate(arguments)]


def _ours(**arguments: Any) -> Any:
    from looplab.evaluation.lm_eval import LooplabLM

    return LooplabLM(run=str(only_run()), device="cpu", **arguments)


def _logits(model: Run, tokens: list[int], loops: int) -> torch.Tensor:
    """Log-probabilities after the start token and each of `tokens`."""
    xs = torch.tensor([[256, *tokens]])
    with torch.no_grad():
        return model.model(Prompts(xs, xs), loops)[-1, 0].double().log_softmax(-1)


@pytest.mark.parametrize("batch_size", [1, 3])
def test_likelihoods_are_those_of_the_logits(model: Run, batch_size: int) -> None:
    found = _ours(batch_size=batch_size, loops=3).loglikelihood(_requests(*_PAIRS))
    for (context, end), (value, is_greedy) in zip(_PAIRS, found, strict=True):
        text = [*(context + end).encode()][-_POSITIONS:]
        count = len(end) + (len(context) - len(context.rstrip()))
        logits = _logits(model, text[:-1], 3)[-count:]
        wanted = logits[torch.arange(count), text[-count:]].sum()
        assert value == pytest.approx(float(wanted), rel=1e-5)
        assert is_greedy == (logits.argmax(-1).tolist() == text[-count:])


def test_whole_texts_are_read_in_windows_after_start_tokens(model: Run) -> None:
    texts = ["the a", "the a sat on the mat and saw the a. " * 3]
    found = _ours(batch_size=2).loglikelihood_rolling(_requests(*((each,) for each in texts)))
    for text, value in zip(texts, found, strict=True):
        tokens, length, wanted = [*text.encode()], _POSITIONS - 1, 0.0
        for end in range(length, len(tokens) + length, length):
            end = min(end, len(tokens))
            read = tokens[max(end - length - 1, 0) : end]
            count = len(tokens[:end]) - (end - 1) // length * length
            logits = _logits(model, read[:-1], 2)[-count:]
            wanted += float(logits[torch.arange(count), read[-count:]].sum())
        assert value == pytest.approx(wanted, rel=1e-5)


def test_generation_is_greedy_up_to_a_stop(model: Run) -> None:
    asked: list[tuple[str, dict[str, Any]]] = [
        ("the a sat", {"until": [], "max_gen_toks": 20}),
        ("the a sat", {"until": ["zzz", " "], "max_gen_toks": 20}),
        ("the d sat on the mat " * 9, {"until": ["\n"], "max_gen_toks": 8}),
    ]
    texts = []
    for context, options in asked:
        tokens = [*context.encode()][-(_POSITIONS - options["max_gen_toks"] - 1) :]
        new = list[int]()
        while len(new) < options["max_gen_toks"]:
            if (token := int(_logits(model, [*tokens, *new], 2)[-1].argmax())) == 256:
                break
            new.append(token)
        text = bytes(new).decode()
        for stop in options["until"]:
            text = text.split(stop)[0]
        texts.append(text)
    found = _ours().generate_until(_requests(*asked))
    assert found == texts
    assert len(found[1]) < len(found[0])
    assert _ours(shared=True).generate_until(_requests(("the", {"max_gen_toks": 3})))[0]


def test_the_harness_s_options_are_taken_or_refused_by_name(
    model: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    from looplab.conf.mistakes import ConfigError
    from looplab.evaluation.lm_eval import LooplabLM

    assert _ours(batch_size="auto").batch_size == 64
    assert _ours(batch_size="auto:4", max_batch_size=3).batch_size == 3
    named = LooplabLM.create_from_arg_obj(
        {"run": str(only_run()), "batch_size": 4}, {"batch_size": 8, "device": "cpu"}
    )
    assert named.batch_size == 4
    assert (named.tokenizer_name, named.chat_template()) == ("bytes", "")
    for ask in (named.chat_template, named.apply_chat_template):
        with pytest.raises(ConfigError, match=r"^apply_chat_template cannot be: the model has no"):
            ask(True)
    words = ["lm_eval", "--model", "looplab", "--tasks", "no_such_task"]
    assert run.main([*words, "--model_args", f"run={only_run()}"]) == 2
    assert capsys.readouterr().err.splitlines()[-1].startswith("run.py: lm_eval says: ")


def test_draws_begin_with_the_seed_of_the_harness(model: Run) -> None:
    def texts(seed: int, **options: Any) -> list[str]:
        torch.manual_seed(seed)
        options = {"do_sample": True, "max_gen_toks": 8} | options
        found: list[str] = _ours().generate_until(_requests(("the", options), ("the", options)))
        return found

    assert texts(0) == texts(0)
    assert texts(0) != texts(5)
    assert texts(0)[0] != texts(0)[1]
    assert texts(0, do_sample=False, top_p=0.5) == texts(5, do_sample=False, num_beams=1)
    for name in ("top_p", "num_beams"):
        with pytest.raises(Exception, match=f"^gen_kwargs cannot have {name}"):
            texts(0, **{name: 2})


def test_its_own_model_says_the_same_of_an_exported_one(tmp_path: Path) -> None:
    for package in ("lm_eval", "transformers", "tokenizers", "accelerate"):
        pytest.importorskip(package, reason=f"{package} is not installed")
    places = [Path(os.environ["LM_EVAL_DATA"])] if "LM_EVAL_DATA" in os.environ else PLACES
    folder = next((place for place in places if (place / "manifest.json").is_file()), None)
    if folder is None:
        pytest.skip("its data are not here: set LM_EVAL_DATA to a folder with piqa.jsonl, …")
    assert run.main([*_words(2048), "task.tokens=bpe", "task.vocabulary=270"]) == 0
    assert run.main(["action=export", f"run={only_run()}", "folder=it"]) == 0
    Path("tasks").mkdir()
    for name, text in _TASKS.items():
        head = f"task: our_{name}\ndataset_path: json\ntest_split: test\n"
        Path(f"tasks/{name}.yaml").write_text(head + text.replace("FOLDER", str(folder)))
    said = printed("-c", _ASK, *_TASKS, cwd=tmp_path, **offline(tmp_path))
    for ours, theirs in json.loads(said.splitlines()[-1]):
        assert len(ours) == len(theirs) >= 5
        assert ours == pytest.approx(theirs, rel=1e-5)


def test_without_the_package_it_is_a_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "lm_eval", None)
    assert run.main(["lm_eval", "--model", "looplab"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("run.py: this command needs lm_eval")
    assert line.endswith("pip install 'lm_eval==0.4.13'")


def test_a_model_of_pairs_and_unknown_arguments_are_a_line(model: Run) -> None:
    from looplab.conf.mistakes import ConfigError
    from looplab.evaluation.lm_eval import LooplabLM

    for arguments, message in (
        ({"run": "shipped/linear"}, "run is no language model but one of task=linear"),
        ({"run": str(only_run()), "loop": 3}, "did you mean 'loops'"),
        ({"run": str(only_run()), "loops": 0}, "loops must be at least 1"),
        ({"run": str(only_run()), "batch_size": "auto:"}, "batch_size must be auto or a whole"),
        ({"run": str(only_run()), "batch_size": 0}, "batch_size must be auto or a whole number"),
    ):
        with pytest.raises(ConfigError, match=message):
            LooplabLM(**arguments)
