"""Kernels for the CPU, each with the name of what it stands in for."""
