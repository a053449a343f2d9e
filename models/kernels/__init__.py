"""The shared block on Triton kernels: one operation per file, with its reference in PyTorch, its
kernels and its autograd function; `segment` combines them.

TRITON_INTERPRET=1, set before Triton is imported, runs them on a CPU, slowly.
"""
