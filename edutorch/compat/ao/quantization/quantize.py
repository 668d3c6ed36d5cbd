"""Quantizing a model: `quantize_dynamic`, or `prepare`, a few batches, and `convert`.

model.qconfig = get_default_qconfig()
prepared = prepare(model)          # layers with observers behind them
for x in batches: prepared(x)      # they note the range of the activations
quantized = convert(prepared)      # layers of integers
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

from edutorch import nn
from edutorch.ao.affine import qint8
from edutorch.ao.nn import intrinsic, qat, quantized
from edutorch.dtypes import float16
from edutorch.errors import InvalidValueError
from edutorch.nn import Module

from .qconfig import QConfig, default_dynamic_qconfig, float16_dynamic_qconfig
from .stubs import DeQuantStub, QuantStub

__all__ = [
    "convert", "prepare", "prepare_qat", "propagate_qconfig_", "quantize", "quantize_dynamic",
    "quantize_qat", "swap_module",
]  # fmt: skip

STATIC_MODULES: dict[type, Any] = {
    nn.Linear: quantized.Linear, nn.Conv2d: quantized.Conv2d, QuantStub: quantized.Quantize,
    DeQuantStub: quantized.DeQuantize, intrinsic.ConvReLU2d: quantized.ConvReLU2d,
    qat.Linear: quantized.Linear, qat.Conv2d: quantized.Conv2d,
    qat.ConvReLU2d: quantized.ConvReLU2d, qat.LinearReLU: quantized.LinearReLU,
    intrinsic.LinearReLU: quantized.LinearReLU, quantized.FloatFunctional: quantized.QFunctional,
}  # fmt: skip
"""What `convert` makes of layers whose activations were observed."""

DYNAMIC_MODULES: dict[type, Any] = {
    nn.Linear: quantized.dynamic.Linear, nn.LSTM: quantized.dynamic.LSTM,
    nn.GRU: quantized.dynamic.GRU,
}  # fmt: skip
"""What `quantize_dynamic` makes of layers."""

NOT_OBSERVED = (DeQuantStub,)
OBSERVER = "activation_post_process"


def propagate_qconfig_(
    module: Module, qconfig_dict: Mapping[Any, Any] | None = None,
    prepare_custom_config_dict: Any = None,
) -> None:  # fmt: skip
    """Set `qconfig` of each layer: that for its path or its type, else that of what it is in.

    Args:
        qconfig_dict: by path ("fc"), or by type (nn.Linear); "" is for all others.
    """
    assign(module, "", dict(qconfig_dict or {}), getattr(module, "qconfig", None))


def assign(module: Module, path: str, chosen: Mapping[Any, Any], outer: QConfig | None) -> None:
    """Set `qconfig` of a module at a path, and of those in it."""
    qconfig = chosen.get(type(module), chosen.get("", outer))
    qconfig = chosen.get(path, qconfig) if path else qconfig
    module.qconfig = getattr(module, "qconfig", qconfig)
    for name, child in module.named_children():
        assign(child, f"{path}.{name}" if path else name, chosen, module.qconfig)


def prepare(
    model: Module, inplace: bool = False, allow_list: Any = None,
    observer_non_leaf_module_list: Any = None, prepare_custom_config_dict: Any = None,
) -> Module:  # fmt: skip
    """Return a copy of the model with an observer behind each layer that `convert` replaces.

    Args:
        model: has a `qconfig`, as its layers may have; a layer whose qconfig is None stays.
        inplace: whether to change the model itself.

    Raises: InvalidValueError: no qconfig is set.
    """
    model = model if inplace else copy.deepcopy(model)
    propagate_qconfig_(model)
    if all(module.qconfig is None for module in model.modules()):
        raise InvalidValueError(
            "prepare", "None of the submodule got qconfig applied",
            hint="set model.qconfig = torch.ao.quantization.get_default_qconfig()",
        )  # fmt: skip
    add_observers(model)
    return model


def add_observers(module: Module) -> None:
    """Add observers to the layers in a module."""
    for child in module.children():
        is_replaced = type(child) in STATIC_MODULES and not isinstance(child, NOT_OBSERVED)
        if is_replaced and child.qconfig is not None:
            child.add_module(OBSERVER, child.qconfig.activation())
            if not isinstance(child, quantized.FloatFunctional):  # which calls it itself
                child.register_forward_hook(observe_output)
        elif not is_replaced:
            add_observers(child)


def observe_output(module: Module, inputs: Any, output: Any) -> Any:
    """Let the observer of a layer see its output."""
    return getattr(module, OBSERVER)(output)


def convert(
    module: Module, mapping: Mapping[type, Any] | None = None, inplace: bool = False,
    remove_qconfig: bool = True, is_reference: bool = False,
    convert_custom_config_dict: Any = None, use_precomputed_fake_quant: bool = False,
) -> Module:  # fmt: skip
    """Return a copy of the model with its layers replaced by those of integers.

    Args:
        mapping: what layers are replaced by, by type; by default what `prepare` observes.
        remove_qconfig: whether to remove `qconfig` and observers.
    """
    module = module if inplace else copy.deepcopy(module)
    replace(module, STATIC_MODULES if mapping is None else mapping)
    if remove_qconfig:
        for part in module.modules():
            part.__dict__.pop("qconfig", None)
            part._modules.pop(OBSERVER, None)
    return module


def replace(module: Module, mapping: Mapping[type, Any]) -> None:
    """Replace the layers in a module."""
    for name, child in module.named_children():
        if type(child) not in mapping:
            replace(child, mapping)
        module._modules[name] = swap_module(child, mapping)


def swap_module(
    mod: Module, mapping: Mapping[type, Any], custom_module_class_mapping: Any = None,
    use_precomputed_fake_quant: bool = False,
) -> Module:  # fmt: skip
    """Return what replaces a layer; the layer itself if nothing does, or its qconfig is None."""
    replacement = mapping.get(type(mod))
    if replacement is None or getattr(mod, "qconfig", None) is None:
        return mod
    return replacement.from_float(mod)


def quantize(
    model: Module, run_fn: Callable[..., Any], run_args: Any, mapping: Any = None,
    inplace: bool = False,
) -> Module:  # fmt: skip
    """Prepare a model, call `run_fn(model, *run_args)`, which shows it data, and convert it."""
    prepared = prepare(model.eval() if inplace else copy.deepcopy(model).eval(), inplace=True)
    run_fn(prepared, *run_args)
    return convert(prepared, mapping, inplace=True)


def prepare_qat(
    model: Module, mapping: Mapping[type, Any] | None = None, inplace: bool = False
) -> Module:
    """Return a copy of the model that trains with rounded weights and activations.

    After the training, `convert(model.eval())` makes the layers of integers.

    Args:
        model: in training mode, with a `qconfig` such as `get_default_qat_qconfig()`.
        mapping: what layers are replaced by, by type.

    Raises: InvalidValueError: it is in evaluation mode.
    """
    if not model.training:
        raise InvalidValueError(
            "prepare_qat", "prepare_qat only works on models in training mode",
            hint="call model.train() first",
        )  # fmt: skip
    model = model if inplace else copy.deepcopy(model)
    propagate_qconfig_(model)
    replace(model, qat.QAT_MODULES if mapping is None else mapping)
    add_observers(model)
    return model


def quantize_qat(
    model: Module, run_fn: Callable[..., Any], run_args: Any, inplace: bool = False
) -> Module:
    """Prepare a model for training, let `run_fn(model, *run_args)` train it, and convert it."""
    prepared = prepare_qat(model, inplace=inplace)
    run_fn(prepared, *run_args)
    return convert(prepared.eval(), inplace=True)


def quantize_dynamic(
    model: Module, qconfig_spec: Any = None, dtype: Any = qint8,
    mapping: Mapping[type, Any] | None = None, inplace: bool = False,
) -> Module:  # fmt: skip
    """Return a copy of the model whose layers have int8 weights and quantize inputs themselves.

    No data is needed. Weights take a quarter of the memory; inputs and outputs stay floats.

    Args:
        qconfig_spec: types of layers ({nn.Linear, nn.LSTM}) or paths, or a dict with a QConfig for
            each; None: all layers that can be.
        dtype: `qint8`, or `float16`, which halves the memory.
        inplace: whether to change the model itself.

    Raises: ValueError: another dtype.

    >>> model = nn.Sequential(nn.Linear(4, 2), nn.ReLU())
    >>> small = edutorch.ao.quantization.quantize_dynamic(model, {nn.Linear})
    >>> small[0].weight().dtype
    torch.qint8
    """
    mapping = DYNAMIC_MODULES if mapping is None else mapping
    if dtype not in (qint8, float16):
        raise InvalidValueError(
            "quantize_dynamic", f"quantize_dynamic with dtype {dtype} is not supported",
            hint="torch.qint8 or torch.float16; or pass a QConfig for each type of layer",
        )  # fmt: skip
    qconfig = default_dynamic_qconfig if dtype is qint8 else float16_dynamic_qconfig
    spec = set(mapping) if qconfig_spec is None else qconfig_spec
    chosen = spec if isinstance(spec, Mapping) else dict.fromkeys(spec, qconfig)
    model = model if inplace else copy.deepcopy(model)
    model.eval()
    propagate_qconfig_(model, chosen)
    return convert(model, mapping, inplace=True)
