"""Measurements of an experiment beside the evaluation of its runs: probes, real tables, the
iso-depth law. Most modules have `measure(request) -> Measurement`."""
