"""Many trainings, each with its evaluations, as jobs that several processes may share."""
