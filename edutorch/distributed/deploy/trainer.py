"""Kubeflow's Trainer, version 2: a TrainJob says what runs, a runtime how nodes come together."""

from __future__ import annotations

import json
from textwrap import indent

from ..run.mpirun import OPEN_MPI_OPTIONS
from .pod import container, escaped, launcher, pod, resources, word_list
from .training_job import TrainingJob

__all__ = ["runtime_mpi", "runtime_torch", "trainjob"]

MPI_RUNTIME = "edutorch-mpi"
SECRET = "edutorch-rendezvous"

TRAINJOB = """\
# kubectl apply -f {runtime}.yaml{needs} -f {name}-trainjob.yaml
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata:
  name: {name}
spec:
  runtimeRef:
    apiGroup: trainer.kubeflow.org
    kind: ClusterTrainingRuntime
    name: {runtime}
  trainer:
    image: {image}
    numNodes: {nodes}
    numProcPerNode: {processes}
{command}{resources}"""


def trainjob(job: TrainingJob) -> str:
    """Return a TrainJob for one of the two runtimes below."""
    command, needs = launcher(job), f" -f {SECRET}.yaml"
    if job.runtime == MPI_RUNTIME:  # the launcher's pod runs this, ssh starts the rest
        mpirun = ["mpirun", "--hostfile", "/etc/mpi/hostfile", *OPEN_MPI_OPTIONS]
        command, needs = [*mpirun, "python", *escaped(job.program)], ""
    return TRAINJOB.format(
        needs=needs, name=job.name, runtime=job.runtime,
        image=json.dumps(job.image), nodes=job.nodes, processes=job.processes,
        command=indent(word_list("command", command), "    "),
        resources=indent(resources(job, "resourcesPerNode"), "    "),
    )  # fmt: skip


RUNTIME_TORCH = """\
# kubectl apply -f edutorch-torch.yaml
# The policy `torch` sets PET_NNODES, PET_NODE_RANK, PET_MASTER_ADDR, …, which our launcher reads.
apiVersion: trainer.kubeflow.org/v1alpha1
kind: ClusterTrainingRuntime
metadata:
  name: edutorch-torch
spec:
  mlPolicy:
    numNodes: {nodes}
    torch: {{}}
  template:
    spec:
      network:
        publishNotReadyAddresses: true
      replicatedJobs:
        - name: node
          template:
            metadata:
              labels:
                trainer.kubeflow.org/trainjob-ancestor-step: trainer
            spec:
              template:
                spec:
                  restartPolicy: OnFailure
{pod}"""


def runtime_torch(job: TrainingJob) -> str:
    """Return the runtime whose nodes meet by our launcher: no ssh, no keys.

    All its jobs in a namespace have one Secret; they are told apart by their addresses.
    """
    node = container(job, "node", word_list("command", launcher(job)))
    return RUNTIME_TORCH.format(nodes=job.nodes, pod=indent(pod(node, SECRET), " " * 18))


RUNTIME_MPI = """\
# kubectl apply -f edutorch-mpi.yaml
# The policy `mpi` makes keys for ssh and a list of hosts. The image has sshd: mpi.Containerfile.
apiVersion: trainer.kubeflow.org/v1alpha1
kind: ClusterTrainingRuntime
metadata:
  name: edutorch-mpi
spec:
  mlPolicy:
    numNodes: {nodes}
    mpi:
      mpiImplementation: OpenMPI
      numProcPerNode: {processes}
      sshAuthMountPath: /home/mpiuser/.ssh
      runLauncherAsNode: true
  template:
    spec:
      network:
        publishNotReadyAddresses: true
      successPolicy:
        operator: All
        targetReplicatedJobs:
          - launcher
      replicatedJobs:
        - name: node
          template:
            spec:
              template:
                spec:
                  restartPolicy: OnFailure
{node}        - name: launcher
          dependsOn:
            - name: node
              status: Ready
          template:
            metadata:
              labels:
                trainer.kubeflow.org/trainjob-ancestor-step: trainer
            spec:
              template:
                spec:
                  restartPolicy: OnFailure
{launcher}"""

READY = """\
readinessProbe:
  tcpSocket:
    port: 2222
"""


def runtime_mpi(job: TrainingJob) -> str:
    """Return the runtime whose nodes are reached by ssh, for those who have MPI jobs already."""
    daemon = word_list("command", ["/usr/sbin/sshd", "-De", "-f", "/home/mpiuser/.sshd_config"])
    node = container(job, "node", daemon + READY, has_secret=False)
    first = container(job, "node", has_secret=False)  # a TrainJob gives its command
    return RUNTIME_MPI.format(
        nodes=job.nodes, processes=job.processes,
        node=indent(pod(node), " " * 18),
        launcher=indent(pod(first), " " * 18),
    )  # fmt: skip
