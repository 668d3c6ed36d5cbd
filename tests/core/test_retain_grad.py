"""`retain_grad` keeps the gradient of a tensor's final value, after all writes into it."""

from __future__ import annotations

import pytest

import edutorch
from edutorch import ones
from tests.oracle import require_torch


def scaled(lib, x, h):
    h.retain_grad()
    h.mul_(3.0)
    return h, h.sum()


def scaled_in_a_view(lib, x, h):
    h.retain_grad()
    h[:2].mul_(3.0)
    return h, h.sum()


def a_view_of_what_is_scaled(lib, x, h):
    view = h[:2]
    view.retain_grad()
    h.mul_(3.0)
    return view, (view * view).sum()


def a_view_that_is_scaled(lib, x, h):
    view = h[:2]
    view.retain_grad()
    view.mul_(3.0)
    return view, (h * h).sum() + view.sum()


def an_overlapping_view(lib, x, h):
    view, other = h[:2], h[1:]
    other.retain_grad()
    view.mul_(3.0)
    return other, (other * other).sum()


def an_element(lib, x, h):
    h.retain_grad()
    h[0] = x[1] * 5
    return h, (h * h).sum()


def zeroed(lib, x, h):
    h.retain_grad()
    h.zero_()
    return h, h.sum()


def copied_into(lib, x, h):
    h.retain_grad()
    h.copy_(x)
    return h, (h * h).sum()


def several_writes(lib, x, h):
    h.retain_grad()
    h.mul_(2)
    h.add_(x)
    h.retain_grad()
    h.clamp_(max=8)
    return h, (h * h).sum()


def written_without_a_graph(lib, x, h):
    h.retain_grad()
    with lib.no_grad():
        h.mul_(2.0)
    return h, h.sum()


def used_before_the_write(lib, x, h):
    h.retain_grad()
    total = h.sum()
    h.mul_(2.0)
    return h, total


def a_buffer(lib, x, h):
    buffer = lib.zeros(3, dtype=x.dtype)
    buffer[0] = h[0]
    buffer.retain_grad()
    buffer[1:] = h[1:]
    return buffer, (buffer * buffer).sum()


def complex_pairs(lib, x, h):
    z = lib.complex(h, h * 2)
    pairs = lib.view_as_real(z)
    pairs.retain_grad()
    z.mul_(2.0)
    return pairs, (pairs * pairs).sum()


PROGRAMS = [
    scaled, scaled_in_a_view, a_view_of_what_is_scaled, a_view_that_is_scaled, an_overlapping_view,
    an_element, zeroed, copied_into, several_writes, written_without_a_graph,
    used_before_the_write, a_buffer, complex_pairs,
]  # fmt: skip


@pytest.mark.oracle
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_as_in_pytorch(program):
    torch, results = require_torch(), []
    for lib in (edutorch, torch):
        x = lib.tensor([1.0, 2.0, 3.0], dtype=lib.float64, requires_grad=True)
        tensor, total = program(lib, x, x * 2)
        assert tensor.retains_grad
        total.backward()
        retained = None if tensor.grad is None else tensor.grad.tolist()
        results.append((retained, x.grad.tolist()))
    assert results[0] == results[1]


def test_a_hook_sees_the_gradient_of_the_value_as_it_was():
    seen = []
    h = ones(2, requires_grad=True) * 2
    h.register_hook(lambda gradient: seen.append(gradient.tolist()))
    h.retain_grad()
    h.mul_(3.0)
    h.sum().backward()
    assert (seen, h.grad.tolist()) == ([[3.0, 3.0]], [1.0, 1.0])


def test_other_axes_in_place():
    h = ones(2, requires_grad=True) * 2
    h.retain_grad()
    h.unsqueeze_(0)
    h.sum().backward()
    assert h.grad.tolist() == [[1.0, 1.0]]
