"""How a model's state moves from loop to loop."""
