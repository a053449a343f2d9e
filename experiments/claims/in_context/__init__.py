"""The claims of 'Looped Transformers are Better at Learning Learning Algorithms' (arXiv 2311.12424)
by figure, as far as they are numbers."""

from . import accuracy, loops, of_commands  # noqa: F401
