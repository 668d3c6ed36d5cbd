"""What is to run, and on how many nodes."""

from __future__ import annotations

from dataclasses import dataclass

from ...errors import InvalidValueError
from ...utils.deployment import kubernetes_name

__all__ = ["TrainingJob"]

PORT = 29500
"""Where node 0 waits for the others."""


@dataclass(frozen=True, slots=True)
class TrainingJob:
    """A program, and the nodes that run it.

    Args:
        program: as behind torchrun: a script or `-m` and a module, and its arguments.
        name: of the job; by default that of the script.
        image: the container.
        nodes: how many computers.
        processes: on each of them.
        gpus: on each of them.
        runtime: the ClusterTrainingRuntime of a TrainJob; by default the one of this policy.

    Raises: InvalidValueError: there is no program, a number is too small, or the image or the
        runtime is no name.

    >>> from edutorch.distributed.deploy import TrainingJob
    >>> TrainingJob(("jobs/train.py", "--epochs", "3"), nodes=2).name
    'train'
    """

    program: tuple[str, ...]
    name: str = ""
    image: str = "edutorch:cpu"
    nodes: int = 1
    processes: int = 1
    gpus: int = 0
    runtime: str = "edutorch-torch"

    def __post_init__(self) -> None:
        script = self.program[1:2] if self.program[:1] == ("-m",) else self.program[:1]
        if not script or script[0].startswith("-"):
            raise InvalidValueError(
                "distributed manifest", "there is no program to run",
                hint="name it behind the options: … train.py --epochs 3, or … -m package",
            )  # fmt: skip
        for option, least in (("nodes", 1), ("processes", 1), ("gpus", 0)):
            if getattr(self, option) < least:
                raise InvalidValueError(
                    "distributed manifest",
                    f"--{option} is at least {least}, not {getattr(self, option)}",
                )
        if not self.image or any(letter.isspace() for letter in self.image):
            raise InvalidValueError(
                "distributed manifest", f"--image is the name of an image, not {self.image!r}"
            )
        if kubernetes_name(self.runtime) != self.runtime:
            raise InvalidValueError(
                "distributed manifest", f"--runtime is a name in Kubernetes, not {self.runtime!r}",
                hint="small letters, digits and dashes, a letter first",
            )  # fmt: skip
        stem = script[0].rpartition("/")[2].removesuffix(".py")
        object.__setattr__(self, "name", kubernetes_name(self.name or stem))

    @property
    def secret(self) -> str:
        """The name of the Secret by which the nodes know each other."""
        return f"{self.name}-rendezvous"
