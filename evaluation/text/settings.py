"""How a language model continues a text."""

from dataclasses import dataclass

from looplab.conf.mistakes import check_device
from looplab.conf.setting import setting


@dataclass(frozen=True)
class Generation:
    """The way in which a text is continued."""

    tokens: int = setting(200, "new tokens", at_least=1)
    temperature: float = setting(
        0.8, "of the distribution that tokens are drawn from; 0: the likeliest", at_least=0
    )
    seed: int = setting(0, "of the draws", at_least=0)
    loops: int | None = setting(None, "loops; null: b, as trained", at_least=1)
    shared: bool = setting(
        False, "whether all loops read the keys and values that earlier tokens have in their last"
    )
    device: str = setting("auto", "auto, cpu, cuda or cuda:1", check=check_device)
