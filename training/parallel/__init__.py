"""One training in several processes, which `torchrun` starts."""
