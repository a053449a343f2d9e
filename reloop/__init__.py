"""In-context learning with looped transformers: train, evaluate and look inside.

from reloop import Config, evaluate, load_run, train

The rooms (reloop.tasks, reloop.models, …) are the folders beside this one, by links.
"""
