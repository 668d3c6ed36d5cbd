"""The registry of models: what `list_models()` lists and `get_model("resnet18")` builds."""

from __future__ import annotations

import difflib
import fnmatch
import functools
import inspect
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any, TypeVar

from ... import nn
from ...errors import ArgumentError, InvalidValueError, warn
from .weights import WEIGHTS, WeightsEnum, WeightsLike, load_weights

Model = TypeVar("Model", bound=nn.Module)

BUILTIN_MODELS: dict[str, Callable[..., nn.Module]] = {}
"""The builder of each model by name."""

WEIGHTS_PARAMETERS = [
    inspect.Parameter("weights", inspect.Parameter.KEYWORD_ONLY, default=None),
    inspect.Parameter("progress", inspect.Parameter.KEYWORD_ONLY, default=True),
]


def register_model(build: Callable[..., Model]) -> Callable[..., Model]:
    """Register a function that builds a model, and let it take `weights` and `progress`.

    The weights are loaded into what the function returns, so it need not know of them. `progress`
    is taken for PyTorch's sake: nothing is downloaded.
    """
    name = build.__name__
    signature = inspect.signature(build)

    @functools.wraps(build)
    def builder(*legacy: Any, weights: WeightsLike = None, **config: Any) -> Model:
        config.pop("progress", None)
        weights = translate_legacy(name, legacy, weights, config)
        # Published weights of segmentation have the auxiliary head, so the model needs it.
        if weights is not None and "aux_loss" in signature.parameters:
            config["aux_loss"] = True
        model = build(**config)
        if weights is not None:
            load_weights(model, name, weights)
        return model

    parameters = [*WEIGHTS_PARAMETERS, *map(keyword_only, signature.parameters.values())]
    vars(builder)["__signature__"] = signature.replace(parameters=parameters)
    BUILTIN_MODELS[name] = builder
    return builder


def keyword_only(parameter: inspect.Parameter) -> inspect.Parameter:
    """Return a parameter that is passed by name; **kwargs stays as it is."""
    if parameter.kind is inspect.Parameter.VAR_KEYWORD:
        return parameter
    return parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)


def translate_legacy(
    name: str, legacy: tuple[Any, ...], weights: WeightsLike, config: dict[str, Any]
) -> WeightsLike:
    """Return the weights that a call asks for, in old programs by `pretrained=True`."""
    if len(legacy) > 1:
        raise ArgumentError(
            name, f"takes only keyword arguments, got {len(legacy)} positional ones",
            hint="weights=None, num_classes=10",
        )  # fmt: skip
    if legacy:
        weights = legacy[0]
    if "pretrained" in config:
        warn(f"{name}: `pretrained` is old: pass weights='DEFAULT', or weights=None")
        weights = config.pop("pretrained")
    if isinstance(weights, bool):
        return "DEFAULT" if weights else None
    return weights


def list_models(
    module: ModuleType | None = None,
    include: Iterable[str] | str | None = None,
    exclude: Iterable[str] | str | None = None,
) -> list[str]:
    """Return the names of all models in alphabetical order.

    Args:
        module: only the models of this package: `models` or `models.segmentation`.
        include: patterns such as "resnet*"; a model is listed if any of them fits.
        exclude: patterns of models to leave out.

    >>> edutorch.vision.models.list_models(include="resnet*")
    ['resnet101', 'resnet152', 'resnet18', 'resnet34', 'resnet50']
    """
    names = {
        name
        for name, builder in BUILTIN_MODELS.items()
        if module is None or builder.__module__.rpartition(".")[0] == module.__name__
    }
    if include:
        names = matching(names, include)
    return sorted(names - matching(names, exclude or ()))


def matching(names: set[str], patterns: Iterable[str] | str) -> set[str]:
    """Return the names that fit at least one of the patterns."""
    patterns = [patterns] if isinstance(patterns, str) else patterns
    return {name for pattern in patterns for name in fnmatch.filter(names, pattern)}


def get_model_builder(name: str) -> Callable[..., nn.Module]:
    """Return the function that builds the model of this name.

    Raises: InvalidValueError (a ValueError): there is no such model; the nearest names are listed.

    >>> edutorch.vision.models.get_model_builder("resnet18").__name__
    'resnet18'
    """
    builder = BUILTIN_MODELS.get(name.lower())
    if builder is None:
        near = difflib.get_close_matches(name.lower(), BUILTIN_MODELS, n=3)
        raise InvalidValueError(
            "get_model",
            f"Unknown model {name}",
            hint=f"did you mean {', '.join(near)}?" if near else "see list_models()",
        )
    return builder


def get_model(name: str, **config: Any) -> nn.Module:
    """Build the model of this name: `get_model("resnet18", num_classes=10)`.

    Raises: InvalidValueError (a ValueError): there is no such model; the nearest names are listed.

    >>> edutorch.vision.models.get_model("resnet18", num_classes=10).fc
    Linear(in_features=512, out_features=10, bias=True)
    """
    return get_model_builder(name)(**config)


def get_model_weights(name: str | Callable[..., nn.Module]) -> type[WeightsEnum]:
    """Return the published weights of a model: an enum whose members name a file each.

    Args:
        name: a model's name, or its builder.

    Raises: InvalidValueError (a ValueError): no such model, or none of its weights are published.

    >>> edutorch.vision.models.get_model_weights("resnet18").DEFAULT.file
    'resnet18-f37072fd.pth'
    """
    name = get_model_builder(name).__name__ if isinstance(name, str) else name.__name__
    if name not in WEIGHTS:
        raise InvalidValueError("get_model_weights", f"no weights of {name} are published")
    return WEIGHTS[name]


def get_weight(name: str) -> WeightsEnum:
    """Return one member of an enum of weights by its full name.

    Raises: InvalidValueError (a ValueError): there is none of this name.

    >>> edutorch.vision.models.get_weight("ResNet50_Weights.IMAGENET1K_V2").file
    'resnet50-11ad3fa6.pth'
    """
    for weights in WEIGHTS.values():
        for member, value in weights.__members__.items():
            if name == f"{weights.__name__}.{member}":
                return value
    raise InvalidValueError(
        "get_weight",
        f"there are no weights {name!r}",
        hint='the full name is like "ResNet18_Weights.DEFAULT"; see get_model_weights("resnet18")',
    )
