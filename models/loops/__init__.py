"""The ways to loop a block."""
