"""Hooks on nodes and leaves get, and replace, the same gradients as in PyTorch."""

from __future__ import annotations

import pytest

import edutorch


def shown(gradients):
    return [gradient if gradient is None else gradient.tolist() for gradient in gradients]


def node_hooks(lib, create_graph):
    seen = []
    x = lib.tensor([1.0, 2.0], requires_grad=True)
    w = lib.tensor(3.0, requires_grad=True)
    y = x * w
    y.retain_grad()
    y.register_hook(lambda g: seen.append(("tensor", g.tolist())))
    y.grad_fn.register_hook(lambda i, o: seen.append(("post", shown(i), shown(o))))
    handle = y.grad_fn.register_hook(lambda i, o: (i[0] * 100, i[1]))
    y.grad_fn.register_prehook(lambda o: seen.append(("pre", shown(o))))
    y.grad_fn.register_prehook(lambda o: (o[0] * 2,))
    y.sum().backward(create_graph=create_graph)
    handle.remove()
    (x * w).sum().backward()
    return seen, x.grad.tolist(), w.grad.tolist(), y.grad.tolist()


@pytest.mark.parametrize("create_graph", [False, True])
def test_node_hooks(torch, create_graph):
    assert node_hooks(edutorch, create_graph) == node_hooks(torch, create_graph)


def leaf_hooks(lib):
    seen = []
    x = lib.tensor([1.0, 2.0], requires_grad=True)
    x.register_post_accumulate_grad_hook(lambda t: seen.append((t is x, t.grad.tolist())))
    handle = x.register_post_accumulate_grad_hook(lambda t: setattr(t, "grad", None))
    (x * x).sum().backward()
    seen.append(x.grad)
    handle.remove()
    end = (x * 2).grad_fn.next_functions[0][0]
    end.register_hook(lambda i, o: seen.append((len(i), shown(o))))
    end.register_prehook(lambda o: (o[0] * 10,))
    (x * x).sum().backward()
    lib.autograd.grad((x * x).sum(), x)  # accumulates nothing
    return seen, x.grad.tolist()


def test_leaf_hooks(torch):
    assert leaf_hooks(edutorch) == leaf_hooks(torch)


def test_hooks_of_a_function_with_two_outputs(torch):
    results = []
    for lib in (edutorch, torch):

        class Two(lib.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2, x * 3

            @staticmethod
            def backward(ctx, g, h):
                return g * 2 + h * 3

        seen = []
        x = lib.tensor(1.0, requires_grad=True)
        a, b = Two.apply(x)
        b.register_hook(lambda g: g * 10)
        a.grad_fn.register_prehook(lambda o, seen=seen: seen.append(shown(o)))
        a.grad_fn.register_hook(lambda i, o, seen=seen: seen.append((shown(i), shown(o))))
        (a + b * 5).backward()
        results.append((seen, x.grad.item()))
    assert results[0] == results[1]


def test_a_hook_returns_as_many(torch):
    for lib in (edutorch, torch):
        x = lib.tensor(1.0, requires_grad=True)
        y = x * x
        y.grad_fn.register_hook(lambda i, o: (i[0],))
        with pytest.raises(RuntimeError, match="incorrect number"):
            y.backward()


def test_only_leaves_accumulate(torch):
    for lib in (edutorch, torch):
        x = lib.tensor(1.0, requires_grad=True)
        with pytest.raises(RuntimeError, match="leaf tensors"):
            (x * x).register_post_accumulate_grad_hook(print)
