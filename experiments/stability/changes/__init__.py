"""How far one optimiser step moves a looped transformer's output, by loops."""
