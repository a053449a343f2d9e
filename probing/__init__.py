"""The inside of a trained model: probes of its states, and the dynamics of its states."""
