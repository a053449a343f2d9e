"""A language model of Looplab for `transformers`, in the folder that `action=export` writes. It
needs the package looplab.

model = AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=True)
model.generate(tokens, max_new_tokens=100)  # tokens [B, S], of which the start token is first
"""

from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import GenerationMixin, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutput
from transformers.utils import can_return_tuple

from looplab.conf.build import config_from_mapping
from looplab.tasks import Prompts
from looplab.training.assemble import model_of

_HALF = (torch.bfloat16, torch.float16)


class LooplabConfig(PretrainedConfig):
    """The `settings` of the run, as its config.yaml has them, and the `loops` of a pass, which may
    be others than those of its training."""

    model_type = "looplab"

    def __init__(
        self,
        settings: dict[str, Any] | None = None,
        vocab_size: int = 257,
        loops: int = 1,
        tie_word_embeddings: bool = False,
        **others: Any,
    ) -> None:
        self.settings = settings or {}
        self.vocab_size = vocab_size
        self.loops = loops
        self.tie_word_embeddings = tie_word_embeddings
        super().__init__(**others)


class LooplabForCausalLM(PreTrainedModel, GenerationMixin):
    """The model, in the dtype that it is loaded with; below float32, products alone are in that of
    the weights. It has no cache: each new token reads the whole text again, also with
    `use_cache=True`. Its vocabulary is that of its tokeniser."""

    config_class = LooplabConfig
    accepts_loss_kwargs = True  # Trainer then gives num_items_in_batch
    _supports_sdpa = True
    # Its loops share their weights: it stays on one device.
    _no_split_modules: ClassVar[list[str]] = ["Model"]

    def __init__(self, config: LooplabConfig) -> None:
        super().__init__(config)
        model = model_of(config_from_mapping(config.settings), vocabulary=config.vocab_size)
        self.model = model.to(torch.get_default_dtype())  # which `from_pretrained` sets to `dtype`
        self.post_init()

    def _init_weights(self, module: nn.Module) -> None:
        """Nothing: the model's weights are made with it."""

    def get_input_embeddings(self) -> nn.Module:
        """The embedding, whose rows are the vocabulary's, rounded up to a multiple of 64."""
        return self.model.read_in

    def get_output_embeddings(self) -> nn.Module:
        """The read-out, whose `weight` is the embedding's where these are tied."""
        return self.model.read_out

    def resize_token_embeddings(
        self,
        new_num_tokens: int | None = None,
        pad_to_multiple_of: int | None = None,
        **_: Any,
    ) -> nn.Module:
        """The embedding as it is. Raises ValueError for another number of tokens."""
        size = self.config.vocab_size
        if pad_to_multiple_of is not None or new_num_tokens not in (None, size):
            raise ValueError(f"the vocabulary has {size} tokens and cannot be resized")
        return self.get_input_embeddings()

    @classmethod
    def _supports_default_dynamic_cache(cls) -> bool:
        return False

    def prepare_inputs_for_generation(self, input_ids: Tensor, **kwargs: Any) -> dict[str, Any]:
        """The whole text, also where a cache would have all but the last token."""
        kwargs["next_sequence_length"] = None
        kwargs.pop("tokenizer", None)  # of `stop_strings`, which `generate` hands on
        inputs: dict[str, Any] = super().prepare_inputs_for_generation(input_ids, **kwargs)
        return inputs

    @can_return_tuple  # type: ignore[untyped-decorator]
    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        loops: int | None = None,
        num_items_in_batch: Tensor | int | None = None,
        use_cache: bool | None = None,
        **others: Any,
    ) -> CausalLMOutput:
        """The logits [B, S, vocabulary] of the tokens after each of `input_ids` [B, S], after
        `loops` loops (the config's, where not given). Gradients reach through all loops.

        Tokens whose `attention_mask` [B, S] is 0 are padding, on either side: the others have the
        logits that they have without it. At padding stand those of the token before it, so that a
        text which is padded on the right goes on as it does alone.

        With `labels` [B, S] (the tokens themselves; -100 and padding count for nothing) also the
        loss in nats: the mean, or the sum over `num_items_in_batch`. Raises ValueError for more
        tokens than the model has positions, and for an input or output that it does not have.
        """
        config = self.config
        others.pop("cache_position", None)  # which some versions give, though there is no cache
        for name in ("output_attentions", "output_hidden_states"):
            others.setdefault(name, getattr(config, name))
        for name, value in others.items():
            if value is not None and value is not False:
                raise ValueError(f"{name}: this model takes tokens, and gives logits alone")
        real = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        if real.shape != input_ids.shape:
            expected = list(input_ids.shape)
            raise ValueError(f"attention_mask must be {expected}, got {list(real.shape)}")
        real = real.bool()
        tokens = input_ids
        is_padded = not bool(real.all())
        if is_padded:
            # Attention is causal: without what lies before and between, padding has no effect.
            # A stable sort of 0 (real) before 1 (padding): real tokens keep their order.
            front = real.logical_not().byte().argsort(dim=1, stable=True)
            tokens = input_ids.gather(1, front)[:, : int(real.sum(1).max())]
        loops = config.loops if loops is None else loops
        self.model.compute_dtype = self.dtype if self.dtype in _HALF else None
        (logits,) = self.model(Prompts(tokens, tokens), loops, grad_loops=loops)
        if is_padded:
            # The place of each token among the real ones; at padding that of the one before it.
            last = (real.cumsum(1) - 1).clamp(min=0)
            logits = logits.gather(1, last[..., None].expand(-1, -1, logits.shape[-1]))
        loss = None
        if labels is not None:
            follows = real & F.pad(real, (1, -1))  # another token, which it is predicted from
            labels = labels.masked_fill(~follows, -100)
            loss = self.loss_function(logits, labels, config.vocab_size, num_items_in_batch)
        return CausalLMOutput(loss, logits)
