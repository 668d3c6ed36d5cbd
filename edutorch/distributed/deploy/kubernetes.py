"""A Job with its Service, Kubeflow's PyTorchJob, and the Secret of both."""

from __future__ import annotations

import secrets
from textwrap import indent

from .pod import container, launcher, pod, word_list
from .training_job import PORT, TrainingJob

__all__ = ["job", "pytorchjob", "secret"]

SECRET = """\
# By this the nodes of the job know each other. It is made anew by each command: keep it out of git.
apiVersion: v1
kind: Secret
metadata:
  name: {name}
type: Opaque
stringData:
  secret: {secret}
"""


def secret(name: str) -> str:
    """Return a Secret with a new secret."""
    return SECRET.format(name=name, secret=secrets.token_hex())


def options(job: TrainingJob, rank: str, address: str, port: str) -> list[str]:
    """Return the launcher's options on a node."""
    return [
        "--nnodes", str(job.nodes), "--nproc-per-node", str(job.processes), "--node-rank", rank,
        "--master-addr", address, "--master-port", port,
    ]  # fmt: skip


JOB = """\
# kubectl apply -f {name}-rendezvous.yaml -f {name}-job.yaml
# kubectl logs -f job/{name}
apiVersion: v1
kind: Service
metadata:
  name: {name}
spec:
  clusterIP: None  # no address of its own: it gives each pod a name
  publishNotReadyAddresses: true
  selector:
    batch.kubernetes.io/job-name: {name}
  ports:
    - name: rendezvous
      port: {port}
---
apiVersion: batch/v1
kind: Job
metadata:
  name: {name}
spec:
  completionMode: Indexed  # the pods are called {name}-0, {name}-1, …
  completions: {nodes}
  parallelism: {nodes}
  backoffLimit: 6
  template:
    spec:
      subdomain: {name}
      # A node whose name is not known yet, or that lost another one, starts anew.
      restartPolicy: OnFailure
{pod}"""

NODE_RANK = """\
- name: NODE_RANK
  valueFrom:
    fieldRef:
      fieldPath: metadata.annotations['batch.kubernetes.io/job-completion-index']
"""


def job(job: TrainingJob) -> str:
    """Return a Job whose pods are the nodes, and the Service by which they find node 0."""
    chosen = options(job, "$(NODE_RANK)", f"{job.name}-0.{job.name}", str(PORT))
    node = container(job, "node", word_list("command", launcher(job, chosen)), NODE_RANK)
    return JOB.format(
        name=job.name, port=PORT, nodes=job.nodes, pod=indent(pod(node, job.secret), " " * 6)
    )


PYTORCHJOB = """\
# kubectl apply -f {name}-rendezvous.yaml -f {name}-pytorchjob.yaml
# For Kubeflow's Training Operator, version 1: it sets RANK, MASTER_ADDR and MASTER_PORT.
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata:
  name: {name}
spec:
  runPolicy:
    backoffLimit: 6
    cleanPodPolicy: Running  # those that have ended stay, with their logs
  pytorchReplicaSpecs:
"""

REPLICAS = """\
    {role}:
      replicas: {count}
      restartPolicy: OnFailure
      template:
        spec:
{pod}"""


def pytorchjob(job: TrainingJob) -> str:
    """Return a PyTorchJob: a master, and a worker for each further node."""
    chosen = options(job, "$(RANK)", "$(MASTER_ADDR)", "$(MASTER_PORT)")
    # The operator looks for a container of this name.
    node = container(job, "pytorch", word_list("command", launcher(job, chosen)))
    text = PYTORCHJOB.format(name=job.name)
    for role, count in (("Master", 1), ("Worker", job.nodes - 1)):
        if count:
            text += REPLICAS.format(
                role=role, count=count, pod=indent(pod(node, job.secret), " " * 10)
            )  # fmt: skip
    return text
