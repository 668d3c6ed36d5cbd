"""The container of a node: program, resources, rights, and where the secret of the job is."""

from __future__ import annotations

import json
from collections.abc import Iterable
from textwrap import indent

from .training_job import TrainingJob

__all__ = ["container", "escaped", "launcher", "pod", "resources", "word_list"]

FOLDER = "/run/rendezvous"

CONTAINER = """\
- name: {name}
  image: {image}
{command}{environment}{resources}  securityContext:
    allowPrivilegeEscalation: false
    capabilities:
      drop: ["ALL"]
  volumeMounts:
{secret_mount}    - name: shared-memory
      mountPath: /dev/shm
"""

SECRET_MOUNT = f"""\
    - name: rendezvous
      mountPath: {FOLDER}
      readOnly: true
"""

SECRET_VARIABLE = f"""\
- name: PET_RDZV_SECRET_FILE
  value: {FOLDER}/secret
"""

POD = """\
securityContext:
  runAsNonRoot: true
  runAsUser: 1000
  runAsGroup: 1000
  fsGroup: 1000
  seccompProfile:
    type: RuntimeDefault
automountServiceAccountToken: false
containers:
{containers}volumes:
{secret}  # MPI passes messages through it within a node; a container has 64 MB by default.
  - name: shared-memory
    emptyDir:
      medium: Memory
"""

SECRET_VOLUME = """\
  - name: rendezvous
    secret:
      secretName: {secret}
      defaultMode: 288  # 0440: the user and nobody else
"""


def escaped(words: Iterable[str]) -> list[str]:
    """Return words as they are meant: Kubernetes puts variables in place of `$(NAME)`.

    >>> from edutorch.distributed.deploy.pod import escaped
    >>> escaped(["--to", "$(HOME)"])
    ['--to', '$$(HOME)']
    """
    return [word.replace("$", "$$") for word in words]


def word_list(field: str, words: Iterable[str]) -> str:
    """Return a field of YAML that is a list of texts, each on a line."""
    lines = [f"  - {json.dumps(word, ensure_ascii=False)}\n" for word in words]
    return f"{field}:\n{''.join(lines)}"


def launcher(job: TrainingJob, options: Iterable[str] = ()) -> list[str]:
    """Return the command of a node: our launcher, its options, and the program."""
    return ["python", "-m", "edutorch.distributed.run", *options, *escaped(job.program)]


def resources(job: TrainingJob, field: str = "resources") -> str:
    """Return what a node asks for: a CPU per process, and the GPUs, which requests follow."""
    gpus = f'  limits:\n    nvidia.com/gpu: "{job.gpus}"\n' if job.gpus else ""
    return f'{field}:\n  requests:\n    cpu: "{job.processes}"\n{gpus}'


def container(
    job: TrainingJob, name: str, command: str = "", environment: str = "", has_secret: bool = True
) -> str:
    """Return a container.

    Args:
        job: what runs.
        name: which Kubeflow prescribes.
        command: the fields that say what it runs; "": somebody else does.
        environment: its variables, besides that of the secret.
        has_secret: whether it takes part in our rendezvous.
    """
    variables = environment + (SECRET_VARIABLE if has_secret else "")
    return CONTAINER.format(
        name=name, image=json.dumps(job.image), command=indent(command, "  "),
        environment=f"  env:\n{indent(variables, '    ')}" if variables else "",
        resources=indent(resources(job), "  "),
        secret_mount=SECRET_MOUNT if has_secret else "",
    )  # fmt: skip


def pod(containers: str, secret: str = "") -> str:
    """Return the specification of a pod: user 1000, no rights, memory for MPI, a Secret."""
    volume = SECRET_VOLUME.format(secret=secret) if secret else ""
    return POD.format(containers=indent(containers, "  "), secret=volume)
