"""The claims of the papers on loops in language models, on small models of bytes."""

from . import fully_looped, iso_depth, residual_scaling, test_loops  # noqa: F401
