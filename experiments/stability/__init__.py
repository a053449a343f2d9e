"""What keeps a loop stable: figures of residual scaling and of the Fully Looped Transformer."""
