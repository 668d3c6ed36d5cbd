"""Why "cuda" does not work here: one sentence each, with what to do."""

from __future__ import annotations

from typing import Any

__all__ = ["card_problem", "driver_version_problem", "import_problem", "package_problem"]

MIN_CAPABILITY = (7, 5)
"""The oldest GPUs that CUDA 13 compiles for: Turing."""

DRIVER_OF = {12: 525, 13: 580}
"""The oldest driver for each major version of CUDA."""

PREFIX = "cupy-cuda"


def cupy_packages() -> dict[str, int]:
    """Return the packages of CuPy that are installed, and the major version of their CUDA."""
    from importlib.metadata import distributions  # it takes 15 ms to import

    names = {(package.metadata["Name"] or "").lower() for package in distributions()}
    return {
        name: int(name.removeprefix(PREFIX).removesuffix("x"))
        for name in sorted(names)
        if name.startswith(PREFIX) and name.removeprefix(PREFIX).removesuffix("x").isdigit()
    }


def package_problem() -> str | None:
    """Return what is wrong with the packages of CuPy: two of them overwrite each other's files."""
    packages = list(cupy_packages())
    if len(packages) < 2:
        return None
    others = " ".join(packages)
    return (
        f"several packages of CuPy are installed ({', '.join(packages)}) and break each other: "
        f"pip uninstall {others}, then pip install {packages[-1]}"
    )


def driver_version_problem(driver: int) -> str | None:
    """Return what is wrong if the driver is too old for the installed CuPy.

    Args:
        driver: the newest CUDA that the driver knows, as 12040 for 12.4.

    >>> from edutorch.backends.cuda_problems import driver_version_problem
    >>> driver_version_problem(99990) is None
    True
    """
    packages = cupy_packages()
    if not packages or not driver:
        return None
    package, needed = max(packages.items(), key=lambda pair: pair[1])
    major = driver // 1000
    if major >= needed:
        return None
    known = f"{major}.{driver % 1000 // 10}"
    update = f"update it to {DRIVER_OF[needed]} or newer" if needed in DRIVER_OF else "update it"
    other = f", or pip uninstall {package} and pip install {PREFIX}{major}x" if major >= 12 else ""
    return (
        f"the NVIDIA driver is too old: it knows CUDA {known}, and {package} needs {needed}.0; "
        f"{update}{other}"
    )


def card_problem(name: str, capability: tuple[int, int]) -> str | None:
    """Return what is wrong with a GPU that is too old to compile for.

    >>> from edutorch.backends.cuda_problems import card_problem
    >>> card_problem("GTX 1080", (6, 1))
    'the GTX 1080 is sm_61, and CUDA 13 needs sm_75 or newer: use another GPU, or device="cpu"'
    """
    if capability >= MIN_CAPABILITY:
        return None
    has = "sm_{}{}".format(*capability)
    needs = "sm_{}{}".format(*MIN_CAPABILITY)
    return (
        f'the {name} is {has}, and CUDA 13 needs {needs} or newer: use another GPU, or device="cpu"'
    )


def import_problem(error: ImportError) -> str:
    """Return why CuPy cannot be imported: a NumPy of another generation, or a missing library.

    >>> from edutorch.backends.cuda_problems import import_problem
    >>> import_problem(ImportError("numpy.core.multiarray failed to import"))[:42]
    'CuPy does not fit the installed NumPy (num'
    """
    text = " ".join(str(error).split())
    causes: Any = (error, error.__cause__, error.__context__)
    words = " ".join(str(cause) for cause in causes if cause is not None)
    if ("numpy" in words.lower() and "multiarray" in words) or "dtype size changed" in words:
        return (
            f"CuPy does not fit the installed NumPy ({text}): "
            'pip install --upgrade "edutorch[cuda]" brings two that fit'
        )
    if ".so" in words or "DLL" in words:
        return (
            f'a library of CUDA is missing ({text}): pip install --upgrade "edutorch[cuda]" '
            "brings them"
        )
    return f"CuPy cannot be imported ({text})"
