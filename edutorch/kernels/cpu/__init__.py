"""Kernels for the CPU, each with the name of what it replaces."""

import importlib.util

from ..disk_cache import install_locator

if importlib.util.find_spec("numba") is not None:  # else only what needs no compiler is imported
    install_locator()  # before the first kernel of any file here is compiled
