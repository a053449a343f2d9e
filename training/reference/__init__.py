"""Checkpoints of the reference codes, made run folders of ours."""
