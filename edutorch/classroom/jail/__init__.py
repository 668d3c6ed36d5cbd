"""The jail: a student's code runs in it, behind walls, and answers questions.

    with JailFactory(Settings()) as factory:
        with factory.jail(cells) as jail:
            outcome = grade(exercise, lambda case: jail.ask(source, case, exercise.forbid), seed)

See README.md for how it is built.
"""

from .settings import Settings
from .walls import Wall, standing

__all__ = ["Jail", "JailError", "JailFactory", "MissingWalls", "Settings", "Wall", "standing"]


def __getattr__(name: str) -> object:
    """Load the grader's side when it is asked for: the jail itself has no use for it."""
    if name in ("Jail", "JailError", "JailFactory", "MissingWalls"):
        from . import factory, jail

        return getattr(factory if name == "JailFactory" else jail, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
