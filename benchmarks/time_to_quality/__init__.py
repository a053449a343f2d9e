"""How many steps, seconds and FLOPs a training takes to reach a stated error."""
