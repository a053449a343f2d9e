"""A language model of Looplab for `transformers`, in the folder that `action=export` writes. It
needs the package looplab.

model = AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=True)
model.generate(tokens, max_new_tokens=100)  # tokens [B, S], of which the start token is first
"""

from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F
from transformers import GenerationMixin, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutput

from looplab.conf.build import config_from_mapping
from looplab.tasks import Prompts
from looplab.training.assemble import model_of


class LooplabConfig(PretrainedConfig):
    """The `settings` of the run, as its config.yaml has them, and the `loops` of a pass, which may
    be others than those of its training."""

    model_type = "looplab"

    def __init__(
        self,
        settings: dict[str, Any] | None = None,
        vocab_size: int = 257,
        loops: int = 1,
        **others: Any,
    ) -> None:
        self.settings, self.vocab_size, self.loops = settings or {}, vocab_size, loops
        super().__init__(**others)


class LooplabForCausalLM(PreTrainedModel, GenerationMixin):
    """The model. It has no cache: each new token reads the whole text again."""

    config_class = LooplabConfig

    def __init__(self, config: LooplabConfig) -> None:
        super().__init__(config)
        self.model = model_of(config_from_mapping(config.settings), vocabulary=config.vocab_size)
        self.post_init()

    def _init_weights(self, module: nn.Module) -> None:
        """Nothing: the model's weights are made with it."""

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        loops: int | None = None,
        **_: Any,
    ) -> CausalLMOutput:
        """The logits [B, S, vocabulary] of the tokens after each of `input_ids` [B, S], after
        `loops` loops (the config's, where not given), and with `labels` [B, S] (the tokens
        themselves; -100 counts for nothing) the mean loss in nats. Gradients reach through all
        loops. Raises ValueError for texts padded on the left, and for more tokens than the model
        has positions."""
        if attention_mask is not None and not attention_mask[:, 0].all():
            raise ValueError("texts begin at the first position: pad them on the right")
        loops = loops or self.config.loops
        (logits,) = self.model(Prompts(input_ids, input_ids), loops, grad_loops=loops)
        loss = None
        if labels is not None:
            loss = F.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())
        return CausalLMOutput(loss, logits)
