"""What tests of probing a run share."""

from looplab.probing.settings import ProbingSettings

SETTINGS = ProbingSettings(
    run="given", steps=6, batch_size=16, prompts=40, resamples=20, seeds=2, device="cpu"
)
