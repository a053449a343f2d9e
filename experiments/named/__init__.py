"""Named experiments: one YAML file of conf/experiment/ for each published figure or table."""
