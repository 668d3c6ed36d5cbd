"""Every public class and function can say its types: `typing.get_type_hints`, as tools ask."""

from __future__ import annotations

import inspect
import typing

import pytest

import edutorch

FACES = {
    name: eval(name, {"edutorch": edutorch})
    for name in (
        "edutorch", "edutorch.nn", "edutorch.nn.functional", "edutorch.nn.init",
        "edutorch.nn.utils", "edutorch.optim", "edutorch.optim.lr_scheduler",
        "edutorch.utils.data", "edutorch.linalg", "edutorch.fft", "edutorch.special",
        "edutorch.distributions", "edutorch.autograd", "edutorch.func", "edutorch.amp",
        "edutorch.fx", "edutorch.train", "edutorch.profiler",
    )
}  # fmt: skip


def functions_of(value):
    """Return a class with its methods and properties, or a function alone."""
    yield value
    for member in vars(value).values() if inspect.isclass(value) else ():
        inner = getattr(member, "__func__", None) or getattr(member, "fget", None) or member
        if inspect.isfunction(inner):
            yield inner


@pytest.mark.parametrize("face", FACES)
def test_types_can_be_read(face):
    untold = []
    for name, value in list(vars(FACES[face]).items()):
        own = (getattr(value, "__module__", None) or "").startswith("edutorch")
        if name.startswith("_") or not own:
            continue
        if not inspect.isclass(value) and not inspect.isfunction(value):
            continue
        for part in functions_of(value):
            try:
                typing.get_type_hints(part)
            except NameError as error:
                untold.append(f"{name}.{part.__name__}: {error}")
    assert not untold


def test_a_module_of_the_user():
    class Net(edutorch.nn.Module):
        layer: edutorch.nn.Linear

        def forward(self, x: edutorch.Tensor) -> edutorch.Tensor:
            return x

    hints = typing.get_type_hints(Net.forward)
    assert hints["x"] is edutorch.Tensor
