"""A language model in `transformers`, from its folder alone: in a process of its own, offline."""

import json
from pathlib import Path

import pytest

from looplab import main as run
from tests.conftest import HOME, printed
from tests.language.conftest import WORDS, only_run

_ASK = """
import json, sys, torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from looplab import Prompts, from_pretrained
from looplab.evaluation.text.language_model import generate
from looplab.evaluation.text.settings import Generation
from looplab.models.backends import use_backend

folder, ours = sys.argv[1], from_pretrained(sys.argv[1])
model, loading = AutoModelForCausalLM.from_pretrained(
    folder, trust_remote_code=True, output_loading_info=True
)
tokenizer, start = ours.task.tokenizer, ours.task.tokenizer.start
encoded = tokenizer.encode("the a").tolist()
if sys.argv[2:]:
    theirs = AutoTokenizer.from_pretrained(folder, trust_remote_code=True)
    assert theirs("the a").input_ids == encoded and theirs.bos_token_id == start
use_backend(ours.model, "eager")
tokens = torch.tensor([[start, *encoded], [start, *reversed(encoded)]])
same = [
    torch.equal(model(tokens, **given).logits, ours.model(Prompts(tokens, tokens), loops)[-1])
    for given, loops in (({}, 2), ({"loops": 3}, 3))
]
logits = model(tokens).logits[:, :-1]
nats = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
same.append(torch.equal((loss := model(tokens, labels=tokens).loss), nats))
loss.backward()
logits = ours.model(Prompts(tokens, tokens), 2, grad_loops=2)[-1][:, :-1]
torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten()).backward()
gradients = [[p.grad for p in each.parameters()] for each in (model, ours.model)]
same.append(all(map(torch.equal, *gradients)))
found = model.generate(tokens[:1], max_new_tokens=5, do_sample=False, eos_token_id=None)
said = generate(ours, "the a", Generation(tokens=5, temperature=0, device="cpu"))
same.append(tokenizer.decode(found[0, 1:].tolist()) == "the a" + said)
try:
    model(tokens, attention_mask=torch.tensor([[0] + [1] * len(encoded)] * 2))
except ValueError as error:
    same.append("pad them on the right" in str(error))
model.save_pretrained("again")
again = AutoModelForCausalLM.from_pretrained("again", trust_remote_code=True)
same.append(torch.equal(again(tokens).logits, model(tokens).logits))
print(json.dumps([same, {key: list(value) for key, value in loading.items()}]))
"""


@pytest.mark.parametrize("words", [[], ["task.tokens=bpe", "task.vocabulary=270"]])
def test_logits_and_continuations_are_the_same(words: list[str], tmp_path: Path) -> None:
    pytest.importorskip("transformers", reason="transformers is not installed")
    if words:
        pytest.importorskip("tokenizers", reason="tokenizers is not installed")
    assert run.main([*WORDS, *words]) == 0
    Path("text.txt").unlink()
    assert run.main(["action=export", f"run={only_run()}", "folder=it"]) == 0
    offline = {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "cache"), "PYTHONPATH": str(HOME)}
    same, loading = json.loads(printed("-c", _ASK, "it", *words, cwd=tmp_path, **offline))
    assert same == 7 * [True]
    assert not any(loading.values())


def test_nothing_says_where_the_text_was(tmp_path: Path) -> None:
    assert run.main([*WORDS, f"folder={tmp_path / 'runs'}"]) == 0
    assert run.main(["action=export", f"run={only_run()}", "folder=it"]) == 0
    files = [path for path in Path("it").rglob("*") if path.is_file()]
    assert {path.name for path in files} > {"modeling_looplab.py", "config.json", "data.json"}
    assert not any(str(tmp_path) in path.read_text(errors="replace") for path in files)
    assert run.main(["action=generate", "run=it", "prompt=the", "tokens=3"]) == 0
