"""A language model in `transformers`, from its folder alone: in a process of its own, offline."""

import json
from pathlib import Path

import pytest

from looplab import load_run
from looplab import main as run
from looplab.evaluation.export.tokenizer import tokenizer_file, tokenizer_settings
from looplab.tasks.language.tokens import BytePairs, Tokenizer, make_tokenizer
from tests.conftest import printed
from tests.language.conftest import WORDS, offline, only_run

_ASK = """
import json, re, sys, torch
from torch.nn.functional import cross_entropy
from transformers import AutoModelForCausalLM, AutoTokenizer
from looplab import Prompts, from_pretrained
from looplab.evaluation.text.language_model import generate
from looplab.evaluation.text.settings import Generation
from looplab.models.backends import use_backend

folder, same = sys.argv[1], {}

def load(path=folder, **options):
    return AutoModelForCausalLM.from_pretrained(path, trust_remote_code=True, **options)

def refused(*words, **options):
    try:
        model(tokens, **options)
    except ValueError as error:
        return all(word in str(error) for word in words)

ours = from_pretrained(folder)
use_backend(ours.model, "eager")
model, loading = load(output_loading_info=True)
start = ours.task.tokenizer.start
theirs = AutoTokenizer.from_pretrained(folder, trust_remote_code=True)
encoded = ours.task.tokenizer.encode("the a").tolist()
same["tokens"] = theirs("the a").input_ids == [start, *encoded]
ends = (theirs.bos_token_id, theirs.eos_token_id, theirs.pad_token_id)
same["start and end"] = ends == (start, start, start)
theirs.save_pretrained("tokens")
again = AutoTokenizer.from_pretrained("tokens")
same["tokens again"] = again("the a").input_ids == [start, *encoded]

tokens = torch.tensor([[start, *encoded], [start, *reversed(encoded)]])
for given, loops in (({}, 2), ({"loops": 3}, 3)):
    wanted = ours.model(Prompts(tokens, tokens), loops)[-1]
    same[f"logits after {loops}"] = torch.equal(model(tokens, **given).logits, wanted)
nats = cross_entropy(model(tokens).logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())
loss = model(tokens, labels=tokens).loss
same["loss"] = torch.equal(loss, nats)
loss.backward()
wanted = ours.model(Prompts(tokens, tokens), 2, grad_loops=2)[-1][:, :-1]
cross_entropy(wanted.flatten(0, 1), tokens[:, 1:].flatten()).backward()
gradients = [[p.grad for p in each.parameters()] for each in (model, ours.model)]
same["gradients"] = all(map(torch.equal, *gradients))
# Of an accumulated batch of 5 times as many tokens, as Trainer says it.
count = 5 * tokens[:, 1:].numel()
loss = model(tokens, labels=tokens, num_items_in_batch=count).loss
same["share of the loss"] = abs(float(loss / nats) - 1 / 5) < 1e-6 and model.accepts_loss_kwargs

greedy = {"max_new_tokens": 4, "do_sample": False, "eos_token_id": None}
found = model.generate(tokens[:1], **greedy)
said = generate(ours, "the a", Generation(tokens=4, temperature=0, device="cpu"))
same["text"] = ours.task.tokenizer.decode(found[0, 1:].tolist()) == "the a" + said
count = tokens.shape[1] + 1
words = {"stop_strings": theirs.decode(found[0, count - 1]), "tokenizer": theirs}
stopped = model.generate(tokens[:1], **greedy, **words)
same["stopped"] = torch.equal(stopped, found[:, :count])
same["cache"] = torch.equal(model.generate(tokens[:1], use_cache=True, **greedy), found)
short = tokens[1:, :3]
alone = [model.generate(row, **greedy)[0, row.shape[1]:] for row in (tokens[:1], short)]
beams = model.generate(short, num_beams=2, **greedy)[0, 3:]
missing = tokens.shape[1] - 3
for side, sizes in {"left": (missing, 0), "right": (0, missing)}.items():
    padded = torch.nn.functional.pad(short, sizes, value=start)
    real = torch.nn.functional.pad(torch.ones_like(short), sizes)
    batch = torch.cat((tokens[:1], padded))
    mask = torch.cat((torch.ones_like(tokens[:1]), real))
    new = model.generate(batch, attention_mask=mask, **greedy)[:, tokens.shape[1]:]
    same[f"padded {side}"] = all(map(torch.equal, new, alone))
    new = model.generate(batch, attention_mask=mask, num_beams=2, use_cache=True, **greedy)
    same[f"beams {side}"] = torch.equal(new[1, tokens.shape[1]:], beams)
    logits = model(batch, attention_mask=mask).logits[1][real[0].bool()]
    same[f"logits {side}"] = torch.allclose(logits, model(short).logits[0], atol=1e-5)
    sums = [model(row, labels=row, num_items_in_batch=1).loss for row in (tokens[:1], short)]
    loss = model(batch, attention_mask=mask, labels=batch).loss
    wanted = sum(sums) / (tokens.shape[1] - 1 + 2)
    same[f"loss {side}"] = torch.allclose(loss, wanted, rtol=1e-5)

same["tuple"] = torch.equal(model(tokens, return_dict=False)[0], model(tokens).logits)
same["refused"] = [
    refused("output_hidden_states", output_hidden_states=True),
    refused("position_ids", position_ids=tokens),
    refused("attention_mask", attention_mask=tokens[:, :2]),
] == [True] * 3
embedding, head = model.get_input_embeddings(), model.get_output_embeddings()
tied = model.config.tie_word_embeddings
same["embeddings"] = (embedding.weight is head.weight) == tied == bool(sys.argv[2:])
same["size"] = model.resize_token_embeddings(start + 1) is embedding
try:
    model.resize_token_embeddings(start + 2)
except ValueError as error:
    same["resized"] = "cannot be resized" in str(error)

half = load(dtype=torch.bfloat16)
same["dtype"] = {p.dtype for p in half.parameters()} == {half.config.dtype} == {torch.bfloat16}
logits = model(tokens).logits
same["nearly"] = float((half(tokens).logits - logits).norm() / logits.norm()) < 0.03
same["one device"] = torch.equal(load(device_map="auto")(tokens).logits, logits)
model.save_pretrained("again")
same["again"] = torch.equal(load("again")(tokens).logits, logits)
(example,) = re.findall("```python(.*?)```", open(folder + "/README.md").read(), re.S)
exec(example.replace("PATH or USER/NAME", folder))
same["example"] = theirs.decode(tokens.input_ids[0]) == "<|start|>Call me"
print(json.dumps([same, {key: list(value) for key, value in loading.items()}]))
"""


@pytest.mark.parametrize(
    "words", [[], ["task.tokens=bpe", "task.vocabulary=270", "model.tied_head=true"]]
)
def test_logits_and_continuations_are_the_same(words: list[str], tmp_path: Path) -> None:
    pytest.importorskip("transformers", reason="transformers is not installed")
    if words:
        pytest.importorskip("tokenizers", reason="tokenizers is not installed")
    assert run.main([*WORDS, *words]) == 0
    Path("text.txt").unlink()
    assert run.main(["action=export", f"run={only_run()}", "folder=it"]) == 0
    said = printed("-c", _ASK, "it", *words, cwd=tmp_path, **offline(tmp_path))
    same, loading = json.loads(said.splitlines()[-1])
    assert [name for name, is_same in same.items() if not is_same] == []
    assert not any(loading.values())


def test_nothing_says_where_the_text_was(tmp_path: Path) -> None:
    assert run.main([*WORDS, f"folder={tmp_path / 'runs'}"]) == 0
    assert run.main(["action=export", f"run={only_run()}", "folder=it"]) == 0
    files = [path for path in Path("it").rglob("*") if path.is_file()]
    assert {path.name for path in files} > {"modeling_looplab.py", "config.json", "data.json"}
    assert not any(str(tmp_path) in path.read_text(errors="replace") for path in files)
    assert run.main(["action=generate", "run=it", "prompt=the", "tokens=3"]) == 0
    assert load_run("it").task.data.kept() == {}  # tokenizer.json is that of transformers alone


_TEXT = "Fifteen men — on\n\t the dead man's chest: 日本 \x00"


def _tokenizers() -> dict[str, Tokenizer]:
    trained = make_tokenizer("bpe", 280, lambda: [_TEXT * 20])
    content = json.loads(trained.content())
    vocabulary = content["model"]["vocab"]
    last = max(vocabulary, key=vocabulary.__getitem__)
    vocabulary[last] = 300
    token = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    added = [{"id": 279, "content": "<|start|>", "special": True} | token]
    return {
        "bytes": make_tokenizer("bytes", 0, tuple),
        "bpe": trained,
        "numbers left out": BytePairs.of(json.dumps(content), "a"),
        "a token of that name": BytePairs.of(
            json.dumps(json.loads(trained.content()) | {"added_tokens": added}), "b"
        ),
    }


def test_a_tokeniser_for_transformers_begins_with_the_start_token() -> None:
    package = pytest.importorskip("tokenizers", reason="tokenizers is not installed")
    for name, ours in _tokenizers().items():
        theirs = package.Tokenizer.from_str(json.dumps(tokenizer_file(ours)))
        found = theirs.encode(_TEXT)
        assert found.ids == [ours.start, *ours.encode(_TEXT).tolist()], name
        assert found.tokens[0] == tokenizer_settings(ours, 16)["bos_token"], name
        assert theirs.decode(found.ids) == _TEXT, name
