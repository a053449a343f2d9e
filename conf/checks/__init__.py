"""Which settings and which combinations of settings cannot run."""
