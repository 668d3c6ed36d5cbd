"""Kernels for NVIDIA GPUs, in CUDA C++: each with the name of what it replaces."""
