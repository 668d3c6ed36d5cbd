"""Hooks of a module, compared with PyTorch's."""

from __future__ import annotations

import pytest

import edutorch
from edutorch import nn


def logging_hooks(module, log):
    """Register every type of hook on a module of either library."""
    module.register_forward_pre_hook(lambda m, args: log.append(("pre", len(args))))
    module.register_forward_hook(lambda m, args, y: log.append(("post", tuple(y.shape))))
    module.register_full_backward_pre_hook(
        lambda m, out: log.append(("backward pre", [round(g.sum().item(), 4) for g in out]))
    )
    module.register_full_backward_hook(
        lambda m, into, out: log.append(
            (
                "backward",
                [None if g is None else round(g.sum().item(), 4) for g in into],
                [round(g.sum().item(), 4) for g in out],
            )
        )
    )


def train_once(library, tensor_of, log):
    model = library.Sequential(library.Linear(3, 2), library.Tanh(), library.Linear(2, 1))
    state = model.state_dict()
    values = {"0.weight": [[0.1, -0.2, 0.3], [0.5, 0.4, -0.6]], "0.bias": [0.1, 0.2],
              "2.weight": [[0.7, -0.8]], "2.bias": [0.3]}  # fmt: skip
    model.load_state_dict({key: tensor_of(values[key]) for key in state})
    for layer in model:
        logging_hooks(layer, log)
    model(tensor_of([[1.0, 2.0, 3.0], [0.5, 0.0, -1.0]])).sum().backward()
    return model


def test_hooks_see_what_pytorchs_see(device, torch):
    log, expected = [], []
    ours = train_once(nn, edutorch.tensor, log)
    theirs = train_once(torch.nn, torch.tensor, expected)
    assert log == expected
    assert ours[0].weight.grad.tolist() == pytest.approx(
        [pytest.approx(row, rel=1e-5) for row in theirs[0].weight.grad.tolist()]
    )


def test_forward_hooks_replace(device):
    module = nn.Identity()
    module.register_forward_pre_hook(lambda m, args: args[0] + 1)
    module.register_forward_hook(lambda m, args, y: y * 10)
    assert module(edutorch.tensor(1.0)).item() == 20


def test_hooks_with_keywords(device):
    class Scaled(nn.Module):
        def forward(self, x, *, by=1.0):
            return x * by

    module, seen = Scaled(), []
    module.register_forward_pre_hook(
        lambda m, args, kwargs: (args, {"by": kwargs["by"] * 2}), with_kwargs=True
    )
    module.register_forward_hook(lambda m, args, kwargs, y: seen.append(kwargs), with_kwargs=True)
    assert module(edutorch.tensor(1.0), by=3.0).item() == 6
    assert seen == [{"by": 6.0}]


def test_order_and_removal(device):
    module, log = nn.Identity(), []
    module.register_forward_hook(lambda *_: log.append("second"))
    module.register_forward_hook(lambda *_: log.append("first"), prepend=True)
    with module.register_forward_hook(lambda *_: log.append("third")):
        module(1)
    module(1)
    assert log == ["first", "second", "third", "first", "second"]


def test_a_hook_that_is_always_called(device):
    module, log = nn.Linear(2, 2), []
    module.register_forward_hook(lambda m, args, y: log.append(y), always_call=True)
    module.register_forward_hook(lambda m, args, y: log.append("no"))
    with pytest.raises(RuntimeError):
        module(edutorch.ones(3))
    assert log == [None]


def test_backward_hooks_replace_the_gradient(device):
    module = nn.Linear(2, 1, bias=False)
    module.register_full_backward_hook(lambda m, into, out: (into[0] * 0 + 7,))
    x = edutorch.ones(1, 2, requires_grad=True)
    module(x).sum().backward()
    assert x.grad.tolist() == [[7, 7]]


def test_backward_pre_hooks_replace_the_gradient(device):
    module = nn.Linear(2, 1, bias=False)
    module.register_full_backward_pre_hook(lambda m, out: (out[0] * 3,))
    x = edutorch.ones(1, 2, requires_grad=True)
    module(x).sum().backward()
    assert module.weight.grad.tolist() == [[3, 3]]
    assert x.grad.tolist() == (module.weight * 3).tolist()


def test_backward_hooks_of_several_inputs_and_outputs(device):
    class Both(nn.Module):
        def forward(self, a, b, flag):
            return a * b, a + b, flag

    module, seen = Both(), []
    module.register_full_backward_hook(lambda m, into, out: seen.append((into, out)))
    a, b = edutorch.tensor([2.0], requires_grad=True), edutorch.tensor([3.0], requires_grad=True)
    product, total, flag = module(a, b, "x")
    (product + 10 * total).sum().backward()
    ((into, out),) = seen
    assert flag == "x"
    assert [gradient.item() for gradient in into[:2]] == [13, 12]
    assert into[2] is None and out[2] is None
    assert [gradient.item() for gradient in out[:2]] == [1, 10]
    assert (a.grad.item(), b.grad.item()) == (13, 12)


def test_a_backward_hook_of_a_first_layer(device):
    """The hook is called although the input does not require grad."""
    module, seen = nn.Linear(2, 1), []
    module.register_full_backward_hook(lambda m, into, out: seen.append((into, out[0].tolist())))
    module(edutorch.ones(1, 2)).sum().backward()
    assert seen == [((None,), [[1]])]
