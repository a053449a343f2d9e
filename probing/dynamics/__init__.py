"""The dynamics of a model's state from loop to loop."""
