"""Kernels for the CPU, each with the name of what it replaces."""

from ..disk_cache import install_locator

install_locator()  # before the first kernel of any file here is compiled
