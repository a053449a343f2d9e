"""The loops of the Fully Looped Transformer side by side."""
