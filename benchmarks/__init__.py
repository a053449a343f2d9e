"""Benchmarks say how fast it is, side by side with what a user would use instead."""
