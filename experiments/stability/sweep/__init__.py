"""The final error by learning rate, loops and residual scaling."""
