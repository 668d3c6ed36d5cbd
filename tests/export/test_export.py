"""Modules as programs: sizes in symbols, files, errors that name a line."""

from __future__ import annotations

import numpy as np
import pytest

import edutorch as torch
from edutorch import nn
from edutorch.export import (
    Dim,
    ExportError,
    InputKind,
    OutputKind,
    ProgramInputError,
    export,
)  # fmt: skip
from edutorch.utils._pytree import tree_flatten
from tests.export.branching import Function


def arrays(tree):
    leaves = tree_flatten(tree)[0]
    return [leaf.detach().numpy() if hasattr(leaf, "detach") else leaf for leaf in leaves]


def assert_same(first, second):
    for a, b in zip(arrays(first), arrays(second), strict=True):
        np.testing.assert_array_equal(a, b)


def test_masks_and_states_are_made_in_the_sizes_of_the_call():
    def forward(_, x):
        batch, length, width = x.shape
        mask = torch.tril(torch.ones(length, length))
        scores = (x @ x.transpose(1, 2)).masked_fill(mask == 0, float("-inf")) / length**0.5
        steps = torch.arange(length)[None, :, None]
        state = torch.zeros(batch, width) + x.new_full((batch, width), 2.0)
        return scores.softmax(-1), x * steps, state, batch * length + 1

    module = Function(forward)
    axes = {0: Dim("batch", min=1), 1: Dim.AUTO}
    program = export(module, (torch.randn(3, 5, 4),), dynamic_shapes=([axes],)).module()
    for sizes in ((1, 1), (2, 9), (6, 2)):
        x = torch.randn(*sizes, 4)
        assert_same(module(x), program(x))


def test_sizes_outside_the_range_name_both_numbers():
    module = nn.Linear(3, 2)
    shapes = {"input": {0: Dim("batch", min=2, max=8)}}
    program = export(module, (torch.ones(4, 3),), dynamic_shapes=shapes).module()
    with pytest.raises(ProgramInputError, match=r"size 9 on axis 0.*from 2 to 8"):
        program(torch.ones(9, 3))
    with pytest.raises(RuntimeError, match="size 4 on axis 1, and had 3"):
        program(torch.ones(4, 4))
    with pytest.raises(AssertionError, match="int64, and was of float32"):
        program(torch.ones(4, 3, dtype=torch.int64))
    with pytest.raises(ProgramInputError, match="takes 1 arguments"):
        program(torch.ones(4, 3), torch.ones(1))


def test_derived_and_automatic_sizes():
    half = Dim("half", min=1, max=8)
    module = Function(lambda _, x, y: x.reshape(-1, 2).sum(1) + y)
    args = (torch.randn(6), torch.randn(3))
    program = export(module, args, dynamic_shapes=([{0: 2 * half}, {0: half}],)).module()
    x, y = torch.randn(10), torch.randn(5)
    assert_same(module(x, y), program(x, y))
    with pytest.raises(ProgramInputError):
        program(torch.randn(10), torch.randn(4))
    looping = Function(lambda _, x: sum(x[i] for i in range(x.shape[0])))
    fixed = export(looping, (torch.randn(3, 2),), dynamic_shapes=([{0: Dim.AUTO}],))
    assert not fixed.range_constraints


def test_parameters_are_inputs_and_can_be_trained():
    module = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    module[2].weight = nn.Parameter(module[2].weight.detach())
    program = export(module, (torch.ones(2, 3),))
    signature = program.graph_signature
    assert signature.parameters == ("0.weight", "0.bias", "2.weight", "2.bias")
    assert [spec.kind for spec in signature.input_specs][-1] is InputKind.USER_INPUT
    assert [name for name, _ in program.named_parameters()] == list(signature.parameters)
    copied = program.module()
    assert set(copied.state_dict()) == set(module.state_dict())
    copied(torch.ones(2, 3)).sum().backward()
    gradient = module[0].weight.grad  # the parameters are the module's own
    assert gradient is not None and bool((gradient != 0).any())


def test_training_mode_writes_the_buffers_of_each_call():
    module = nn.BatchNorm1d(3)
    before = module.running_mean.clone()
    program = export(module, (torch.randn(4, 3),), dynamic_shapes=({0: Dim("n", min=2)},))
    uses = {spec.kind for spec in program.graph_signature.output_specs}
    assert OutputKind.BUFFER_MUTATION in uses
    assert_same(before, module.running_mean)
    x = torch.randn(7, 3)
    running = program.module()
    program_result = running(x)
    state = {name: value.clone() for name, value in running.state_dict().items()}
    module.load_state_dict({**module.state_dict(), "running_mean": before})
    module.running_var.fill_(1.0)
    assert_same(module(x), program_result)
    assert_same(module.running_mean, state["running_mean"])


def test_constants_must_be_those_of_the_export():
    module = Function(lambda _, x, power: x**power)
    program = export(module, (torch.ones(2), 3)).module()
    assert_same(program(2 * torch.ones(2), 3), 8 * torch.ones(2))
    with pytest.raises(ProgramInputError, match="is 4, and was 3"):
        program(torch.ones(2), 4)


def test_in_place_writes_become_new_values():
    def forward(_, x):
        y = torch.zeros(x.shape[0], 3)
        y[:, 0] = x[:, 0]
        y[:, 1:] += 2
        return y, x.clone().mul_(2)

    module = Function(forward)
    program = export(module, (torch.randn(3, 2),), dynamic_shapes=([{0: Dim("n")}],)).module()
    x = torch.randn(5, 2)
    assert_same(module(x), program(x))


def test_other_objects_are_no_modules():
    with pytest.raises(ValueError, match=r"torch\.nn\.Module"):
        export(lambda x: x, (torch.ones(1),))
    with pytest.raises(ExportError, match="no argument"):
        export(nn.ReLU(), (torch.ones(1),), dynamic_shapes={"other": {0: Dim("n")}})
