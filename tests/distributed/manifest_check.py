"""Checks manifests without a cluster: the schemas of Kubernetes, the models of Kubeflow."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

VERSION = "1.37"  # of Kubernetes: the newest that kubernetes-validate 1.37 knows
CORE = ("Job", "Pod", "Secret", "Service", "ServiceAccount")


def problems(document: dict[str, Any]) -> list[str]:
    """Return what is wrong in a document, as `path: what`."""
    name = document.get("kind")
    if name in CORE:
        result = list(by_schema(document))
    elif name == "PyTorchJob":
        result = list(by_training_operator(document))
    elif name in ("TrainJob", "ClusterTrainingRuntime"):
        result = list(by_trainer(document))
    else:
        return [f"kind: {name!r} is none that is known here"]
    for path, pod in pods(document):
        if name not in CORE:  # the models look into a pod less closely
            whole = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": pod}
            result += [line.replace("spec", path, 1) for line in by_schema(whole)]
        for number, container in enumerate(pod["containers"]):
            # A TrainJob may give the image; the schemas let it be absent everywhere.
            if not isinstance(container, dict) or not container.get("image"):
                result.append(f"{path}.containers.{number}.image: there is none")
    return result


def pods(value: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the specifications of pods in a document, with their paths."""
    if isinstance(value, dict) and isinstance(value.get("containers"), list):
        yield path, value
        return
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in items:
        if isinstance(inner, dict | list):
            yield from pods(inner, f"{path}.{key}".lstrip("."))


def by_schema(document: dict[str, Any]) -> Iterator[str]:
    import kubernetes_validate

    try:
        kubernetes_validate.validate(document, VERSION, strict=True)
    except kubernetes_validate.ValidationError as error:
        yield f"{'.'.join(map(str, error.path))}: {error.message}"


def by_trainer(document: dict[str, Any]) -> Iterator[str]:
    """Compare with what the models keep: they let unknown fields vanish."""
    from kubeflow_trainer_api import models
    from pydantic import ValidationError

    model = getattr(models, f"TrainerV1alpha1{document['kind']}")
    try:
        kept = model.from_dict(document).to_dict()
    except ValidationError:
        yield from whole_paths(model, document)
    else:
        yield from differences(document, kept)


def whole_paths(model: Any, document: dict[str, Any]) -> Iterator[str]:
    """Yield what is wrong, from the top: `from_dict` tells the path within an inner model only."""
    from pydantic import ValidationError

    try:
        model.model_validate(document)
    except ValidationError as error:
        for line in error.errors():
            # Quantities and ports have models that only `from_dict` fills.
            if not re.search("instance of IoK8s.*(Quantity|IntOrString)", line["msg"]):
                yield f"{'.'.join(map(str, line['loc']))}: {line['msg']}"


def by_training_operator(document: dict[str, Any]) -> Iterator[str]:
    """The same for models of an older generator, which change what has another type."""
    from kubeflow.training.api_client import ApiClient

    client = ApiClient()
    response = SimpleNamespace(data=json.dumps(document))
    try:
        read = client.deserialize(response, "KubeflowOrgV1PyTorchJob")
    except (ValueError, TypeError, AttributeError) as error:
        yield f"spec: {error}"
    else:
        kept = client.sanitize_for_serialization(read)
        yield from differences(document, kept)


def differences(original: Any, kept: Any, path: str = "") -> Iterator[str]:
    """Yield the paths at which something is gone or another."""
    if isinstance(original, dict) and isinstance(kept, dict):
        for key, value in original.items():
            place = f"{path}.{key}".lstrip(".")
            if key in kept:
                yield from differences(value, kept[key], place)
            else:
                yield f"{place}: no such field"
    elif isinstance(original, list) and isinstance(kept, list) and len(original) == len(kept):
        for number, (one, other) in enumerate(zip(original, kept, strict=True)):
            yield from differences(one, other, f"{path}.{number}")
    elif type(original) is not type(kept) or original != kept:
        yield f"{path}: {original!r} is read as {kept!r}"
