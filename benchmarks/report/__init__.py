"""What benchmarks/gpu_report.sh measured, as a text for a person."""
