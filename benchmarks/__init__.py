"""Benchmarks against PyTorch on the CPU: `python -m benchmarks overhead | train | import`."""
