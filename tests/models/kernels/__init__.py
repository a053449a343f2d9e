"""Tests of the Triton kernels: interpreted on a CPU, compiled where there is a GPU."""
