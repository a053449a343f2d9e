"""The stability of loops: figures of residual scaling and of the Fully Looped Transformer."""
