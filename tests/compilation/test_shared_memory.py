"""Writes, views and results that show other memory: as if nothing had been compiled."""

from __future__ import annotations

import warnings

import pytest

import edutorch as torch
from tests.compilation.comparison import compiled, same_as

# Shared memory -----------------------------------------------------------------------------------


def test_writes_into_arguments_and_their_views():
    def function(x):
        x[0] = 5.0
        flat = x.view(-1)
        flat[1:3].mul_(2)
        x.t().add_(1)
        return x.sum(), flat.clone()

    grid = lambda: (torch.arange(6.0).view(3, 2),)  # noqa: E731
    other = same_as(function, grid, grid, grid)
    assert not other.broken
    assert len(other.entries) == 1


def test_results_that_show_an_argument():
    other = compiled(lambda x, y: (x.t(), x, y, x))
    x, y = torch.zeros(2, 2), torch.ones(1)
    for _ in range(2):
        turned, first, second, third = other(x, y)
        assert first is x
        assert second is y
        assert third is x
        turned[0, 1] += 1
    assert x[1, 0].item() == 2.0
    assert turned._base is x


def test_results_that_show_an_argument_that_was_written():
    def function(x):
        row = x[0]
        row.add_(1)
        return row

    other = compiled(function)
    x = torch.zeros(2, 2)
    for expected in (1.0, 2.0, 3.0):
        row = other(x)
        assert row.tolist() == [expected, expected]
    row[0] = 9.0
    assert x[0, 0].item() == 9.0


def test_constants_are_new_in_each_call():
    other = compiled(lambda x: (torch.zeros(2), torch.ones(4).view(2, 2), x + 1))
    x = torch.ones(1)
    for _ in range(3):
        zeros, ones, _ = other(x)
        assert (zeros.tolist(), ones.tolist()) == ([0.0, 0.0], [[1.0, 1.0], [1.0, 1.0]])
        zeros.add_(1)
        ones.add_(1)


def test_arguments_that_overlap():
    def function(x, y):
        x.add_(1)
        return x * y

    other = compiled(function)
    a, b = torch.ones(2), torch.ones(2)
    assert other(a, b).tolist() == [2.0, 2.0]
    same = torch.ones(2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert other(same, same).tolist() == [4.0, 4.0]
        assert other(same, same).tolist() == [9.0, 9.0]
        whole = torch.ones(3)
        assert other(whole[:2], whole[1:]).tolist() == [4.0, 2.0]
        whole = torch.ones(3)
        assert other(whole[:2], whole[1:]).tolist() == [4.0, 2.0]
    assert other(torch.ones(2), torch.ones(2)).tolist() == [2.0, 2.0]


@pytest.mark.parametrize(
    "views",
    [
        lambda x: (x, x),
        lambda x: (x, x.detach()),
        lambda x: (x, x[:]),
        lambda x: (x, x.t()),
        lambda x: (x, x.view(4)),
        lambda x: (x, x.view(torch.int32)),
        lambda x: (x, x[:1]),
        lambda x: (x[0], x[1]),
        lambda x: (x[0], x[:, 0]),
    ],
)
@pytest.mark.parametrize("writes", [False, True])
def test_arguments_that_show_one_memory(views, writes):
    def function(x, y):
        if writes:
            x.add_(1)
        return x * 2, y + 1

    def arguments():
        return views(torch.arange(4.0).view(2, 2))

    same_as(function, arguments, arguments, lambda: (torch.ones(4), torch.ones(4)), arguments)


def test_an_index_that_is_a_tensor():
    x = lambda i: lambda: (torch.arange(3.0), torch.tensor(i))  # noqa: E731
    same_as(lambda x, i: x[i] * 2, x(0), x(2), x(1))

    def writing(x, i):
        x[i] = 7.0
        return x.clone()

    assert not same_as(writing, x(0), x(2), x(1)).broken

    def through_a_view(x, i):
        view = x[i]
        view += 7.0
        return x.clone()

    same_as(through_a_view, x(0), x(2), x(1))


def test_a_version_for_an_argument_that_shows_a_tensor_serves_no_other_argument():
    owned, other = torch.full((4, 3), 2.0), torch.ones(4, 3)
    compiled = torch.compile(lambda x: owned * x)
    assert [compiled(x)[0, 0].item() for x in (owned[:], owned[:], other, owned[:])] == [4, 4, 2, 4]
    assert len(compiled.entries) == 2


def test_an_argument_is_not_written_in_the_place_of_a_tensor_that_it_does_not_show():
    owned, other = torch.zeros(4, 3), torch.ones(4, 3)
    compiled = torch.compile(lambda x: owned.add_(1) + x)
    results = [compiled(x)[0, 0].item() for x in (owned[:], other, owned[:], other)]
    assert results == [2, 3, 6, 5] and other.unique().tolist() == [1]
