"""The change of a looped transformer's output by one optimiser step, by loops."""
