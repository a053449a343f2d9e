"""What named experiments measure in finished runs beside their errors: each module has a function
`measure(runs, settings)` that returns plain values with panels (experiments/named/results.py)."""
