"""The training loop: what it computes and leaves behind, and that stopping it harms nothing."""
