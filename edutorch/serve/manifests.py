"""Files for running elsewhere: `edutorch serve MODELS --manifest kserve|triton|cloudrun|container`.

Texts to be read and changed. Nothing here talks to a cluster.
"""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

from ..errors import EdutorchError
from ..utils.deployment import Files, kubernetes_name, write_files
from .errors import ModelError
from .loaders import HANDLER_FILE, TrustedHandlers, load_folder
from .served import Served, TensorSpec
from .settings import NAME, VERSION, Settings


def write_manifest(format: str, settings: Settings, folder: Path) -> list[Path]:
    """Write the files of a format, and return their paths.

    Args:
        format: one of `MANIFESTS`.
        settings: those that the server will have; its handlers become arguments of the container.
        folder: where to; it is made if need be.

    Raises: ModelError: a model cannot be run there.
    """
    return write_files(MANIFESTS[format](settings), folder)


def latest_versions(settings: Settings) -> Iterator[tuple[str, Path]]:
    """Yield each model's name, and the folder of its highest version."""
    for folder in sorted(settings.models.iterdir()):
        versions = [path for path in folder.glob("*") if VERSION.fullmatch(path.name)]
        if NAME.fullmatch(folder.name) and versions:
            yield folder.name, max(versions, key=lambda path: int(path.name))


# A container -------------------------------------------------------------------------

CONTAINERFILE = """\
# podman build -f Containerfile -t models {context}
FROM docker.io/library/python:3.13-slim
ARG EDUTORCH="edutorch[serve,onnx]"
RUN pip install --no-cache-dir "$EDUTORCH"
COPY {copy}
USER 1000:1000
ENV PORT=8080 PYTHONUNBUFFERED=1
EXPOSE 8080
STOPSIGNAL SIGTERM
HEALTHCHECK CMD ["python", "-c", \
"import os, urllib.request as r; r.urlopen(f'http://127.0.0.1:{{os.environ[\\"PORT\\"]}}/v2/health/live')"]
CMD {command}
"""


def container(settings: Settings) -> Files:
    """Yield a Containerfile: the models are inside, the server listens on $PORT."""
    root = settings.models.resolve()
    yield (
        "Containerfile",
        CONTAINERFILE.format(
            context=shlex.quote(str(root.parent)), copy=json.dumps([root.name, "/models"]),
            command=json.dumps(command(settings)),
        ),
    )  # fmt: skip


LIMITS = (
    "max_batch", "batch_delay", "queue", "workers", "timeout", "max_body", "body_timeout", "drain",
    "reload",
)  # fmt: skip


def command(settings: Settings) -> list[str]:
    """Return what a container runs. Its names are chosen elsewhere, so any Host is taken.

    Raises: ModelError: a trusted handler is not in the folder of models, so it is not inside.
    """
    words = "python -m edutorch serve /models --host 0.0.0.0 --allow-host *".split()
    for name in LIMITS:
        value = getattr(settings, name)
        if value != getattr(Settings, name):
            words += [f"--{name.replace('_', '-')}", str(value)]
    words += ["--allow-control"] if settings.allow_control else []
    root = settings.models.resolve()
    for path in settings.trusted:
        if not path.resolve().is_relative_to(root):
            raise ModelError(
                "serve", f"--trust-handler {path} is outside {settings.models}: it is not copied",
                hint="a handler.py stands beside its model",
            )  # fmt: skip
        inside = path.resolve().relative_to(root)
        words += ["--trust-handler", f"/models/{inside.as_posix()}"]
    return words


PROBES = """\
          startupProbe:
            httpGet: {path: /v2/health/ready, port: 8080}
            periodSeconds: 1
            failureThreshold: 60
          livenessProbe:
            httpGet: {path: /v2/health/live, port: 8080}
"""

SERVICE = """\
# gcloud run services replace service.yaml
apiVersion: serving.knative.dev/v1
kind: Service
metadata:
  name: models
spec:
  template:
    metadata:
      annotations:
        autoscaling.knative.dev/maxScale: "3"
    spec:
      containerConcurrency: {queue}
      timeoutSeconds: {timeout}
      containers:
        - image: IMAGE  # what you have pushed
          ports:
            - containerPort: 8080
          resources:
            limits: {{cpu: "2", memory: 2Gi}}
"""


def cloudrun(settings: Settings) -> Files:
    """Yield a Containerfile and the service that runs it: Cloud Run, or Knative elsewhere."""
    yield from container(settings)
    text = SERVICE.format(
        queue=min(settings.queue, 1000),  # the most that Cloud Run takes, as an hour is below
        timeout=min(max(1, math.ceil(settings.timeout)), 3600),
    )
    yield "service.yaml", text + PROBES


# KServe ------------------------------------------------------------------------------

INFERENCE_SERVICE = """\
# kubectl apply -f {name}.yaml
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata:
  name: {label}
spec:
  predictor:
"""

BY_TRITON = """\
    model:
      modelFormat:
        name: onnx
      runtime: kserve-tritonserver
      protocolVersion: v2
      # Its folder holds {name}/ alone, with the config.pbtxt of `--manifest triton`: Triton
      # serves every model that it finds there.
      storageUri: pvc://models/{label}
"""

BY_EDUTORCH = """\
    containers:
      - name: kserve-container
        image: IMAGE  # what `--manifest container` builds
        ports:
          - containerPort: 8080
            protocol: TCP
        readinessProbe:
          httpGet: {path: /v2/health/ready, port: 8080}
"""


def kserve(settings: Settings) -> Files:
    """Yield an InferenceService for each model: ONNX runs in Triton, all else in our container.

    Raises: ModelError: Kubernetes could not tell two models apart.
    """
    labels: dict[str, str] = {}
    is_contained = False
    for name, folder in latest_versions(settings):
        label = kubernetes_name(name)
        if label in labels:
            raise ModelError(
                "serve", f"{labels[label]!r} and {name!r} are both {label!r} in Kubernetes",
                hint="rename the folder of one",
            )  # fmt: skip
        labels[label] = name
        by_triton = (folder / "model.onnx").is_file() and not (folder / HANDLER_FILE).is_file()
        is_contained |= not by_triton
        template = INFERENCE_SERVICE + (BY_TRITON if by_triton else BY_EDUTORCH)
        yield f"{name}.yaml", template.replace("{name}", name).replace("{label}", label)
    if is_contained:
        yield from container(settings)


# Triton ------------------------------------------------------------------------------

CONFIG = """\
name: "{name}"
platform: "onnxruntime_onnx"
max_batch_size: {max_batch}
input [
{inputs}
]
output [
{outputs}
]
"""

BATCHING = """\
dynamic_batching {{
  max_queue_delay_microseconds: {delay}
  default_queue_policy {{ max_queue_size: {queue} }}
}}
"""


def triton(settings: Settings) -> Files:
    """Yield a config.pbtxt for each model. MODELS itself is laid out as Triton wants it.

    Raises: ModelError: a model is no ONNX file; Triton cannot read it.
    """
    trusted = TrustedHandlers(settings.trusted)
    for name, folder in latest_versions(settings):
        if not (folder / "model.onnx").is_file():
            raise ModelError(
                "serve", f"Triton cannot read {name}/{folder.name}: there is no model.onnx",
                hint="write it with torch.onnx.export(model, args, 'model.onnx')",
            )  # fmt: skip
        try:
            served = load_folder(folder, trusted)
        except EdutorchError as error:
            raise ModelError("serve", f"{name}/{folder.name} cannot be loaded: {error}") from error
        yield f"{name}/config.pbtxt", triton_config(name, served, settings)


def triton_config(name: str, served: Served, settings: Settings) -> str:
    """Return the config.pbtxt of a model."""
    _, most = served.row_limits() or (1, 1)
    most = min(most, settings.max_batch) if served.batching else 1
    joins = most > 1
    text = CONFIG.format(
        name=name, max_batch=most if joins else 0,
        inputs=",\n".join(triton_tensor(spec, joins) for spec in served.inputs),
        outputs=",\n".join(triton_tensor(spec, joins) for spec in served.outputs),
    )  # fmt: skip
    if joins:
        delay = round(settings.batch_delay * 1e6)
        text += BATCHING.format(delay=delay, queue=settings.queue)
    return text


def triton_tensor(spec: TensorSpec, joins: bool) -> str:
    """Return the entry of an input or output; with batching, the axis of rows is left out."""
    dims = list(spec.shape[1:] if joins else spec.shape)
    # Triton takes no empty shape; it makes one of another.
    reshape = "" if dims else ", reshape { shape: [] }"
    name = json.dumps(spec.name, ensure_ascii=False)
    return f"  {{ name: {name}, data_type: TYPE_{spec.datatype}, dims: {dims or [1]}{reshape} }}"


MANIFESTS: dict[str, Callable[[Settings], Files]] = {
    "kserve": kserve,
    "triton": triton,
    "cloudrun": cloudrun,
    "container": container,
}
