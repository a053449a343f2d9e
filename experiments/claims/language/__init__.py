"""The claims of the papers on loops in language models, on small models of bytes."""

from . import fully_looped, iso_depth, loops_after_training, residual_scaling  # noqa: F401
