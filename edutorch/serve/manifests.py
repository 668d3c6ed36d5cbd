"""Files for running elsewhere: `edutorch serve MODELS --manifest kserve|triton|cloudrun|container`.

Texts to be read and changed. Nothing here talks to a cluster.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

from ..errors import EdutorchError
from .errors import ModelError
from .loaders import TrustedHandlers, load_folder
from .served import Served, TensorSpec
from .settings import NAME, VERSION, Settings

Files = Iterator[tuple[str, str]]
"""Names and texts of files."""


def write_manifest(format: str, settings: Settings, folder: Path) -> list[Path]:
    """Write the files of a format, and return their paths.

    Args:
        format: one of `MANIFESTS`.
        settings: those that the server will have; its handlers become arguments of the container.
        folder: where to; it is made if need be.

    Raises: ModelError: a model cannot be run there.
    """
    paths = []
    for name, text in list(MANIFESTS[format](settings)):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        paths.append(path)
    return paths


def latest_versions(settings: Settings) -> Iterator[tuple[str, Path]]:
    """Yield each model's name, and the folder of its highest version."""
    for folder in sorted(settings.models.iterdir()):
        versions = [path for path in folder.glob("*") if VERSION.fullmatch(path.name)]
        if NAME.fullmatch(folder.name) and versions:
            yield folder.name, max(versions, key=lambda path: int(path.name))


# A container -------------------------------------------------------------------------

CONTAINERFILE = """\
# podman build -f {file} -t models {context}
FROM docker.io/library/python:3.13-slim
ARG EDUTORCH="edutorch[serve,onnx]"
RUN pip install --no-cache-dir "$EDUTORCH"
COPY {models} /models
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
            file="Containerfile", context=root.parent, models=root.name,
            command=json.dumps(command(settings)),
        ),
    )  # fmt: skip


def command(settings: Settings) -> list[str]:
    """Return what a container runs. Its names are chosen elsewhere, so any Host is taken."""
    words = [
        "python",
        "-m",
        "edutorch",
        "serve",
        "/models",
        "--host",
        "0.0.0.0",
        "--allow-host",
        "*",
    ]
    for name in ("max_batch", "batch_delay", "queue", "workers", "timeout", "max_body"):
        value = getattr(settings, name)
        if value != getattr(Settings, name):
            words += [f"--{name.replace('_', '-')}", f"{value:g}"]
    for path in settings.trusted:
        inside = path.resolve().relative_to(settings.models.resolve())
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
    text = SERVICE.format(queue=settings.queue, timeout=max(1, round(settings.timeout)))
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
      storageUri: pvc://models  # the folder above {name}/, with its config.pbtxt
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
    """Yield an InferenceService for each model: ONNX runs in Triton, all else in our container."""
    for name, folder in latest_versions(settings):
        is_onnx = (folder / "model.onnx").is_file()
        label = name.lower().replace("_", "-").replace(".", "-")  # as Kubernetes has it
        text = INFERENCE_SERVICE.format(name=name, label=label)
        yield f"{name}.yaml", text + (BY_TRITON.format(name=name) if is_onnx else BY_EDUTORCH)


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
    joins = served.batching and served.has_free_rows() and settings.max_batch > 1
    text = CONFIG.format(
        name=name, max_batch=settings.max_batch if joins else 0,
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
    return f'  {{ name: "{spec.name}", data_type: TYPE_{spec.datatype}, dims: {dims} }}'


MANIFESTS: dict[str, Callable[[Settings], Files]] = {
    "kserve": kserve,
    "triton": triton,
    "cloudrun": cloudrun,
    "container": container,
}
