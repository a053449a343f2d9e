"""Search: `python run.py search=…`, settings that Optuna chooses, each trial an ordinary run."""
