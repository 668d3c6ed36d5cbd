"""Bad calls that no op alone looks at: keywords, `out=`, layers and their settings.

Every op and every layer is walked; what each refuses names it, and says what to do.
"""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest

import edutorch
from edutorch import errors, nn, tensor
from edutorch.core.registry import REGISTRY
from edutorch.core.tensor_methods import OPERATORS
from tests.module_cases import CASES
from tests.op_calls import arguments, call
from tests.op_cases import CASES as OP_CASES
from tests.test_every_module import convert_argument, make, values_of

pytestmark = pytest.mark.filterwarnings("ignore")

# Ops -----------------------------------------------------------------------------------------

KEYWORDS = [op for op in REGISTRY.values() if op.settings and op.name not in OPERATORS]


def test_an_unknown_keyword_of_an_op():
    for op in KEYWORDS:
        name = op.settings[-1]
        match = f"unexpected keyword argument '{name}x'"
        with pytest.raises(errors.ArgumentError, match=match) as info:
            op.function(**dict.fromkeys(op.signature.parameters), **{f"{name}x": 1})
        assert name in info.value.hint


def test_what_out_may_be():
    for op in REGISTRY.values():
        if op.has_out and op.name in OP_CASES:
            check_out(op)


def check_out(op):
    sample = arguments(op, OP_CASES[op.name][0])
    with edutorch.no_grad():
        result = call(op, sample)
    if not isinstance(result, edutorch.Tensor):
        return
    for wrong in (3, np.zeros(3), [result]):
        with pytest.raises(errors.ArgumentError, match="argument `out` must be a Tensor"):
            op.function(**sample, out=wrong)
    longer = edutorch.zeros((*result.shape, 2), dtype=result.dtype)
    with pytest.raises(errors.ShapeError, match="`out` does not have the shape"):
        op.function(**sample, out=longer)
    if result.numel() > 1:
        same = edutorch.zeros((1,) * result.ndim, dtype=result.dtype).expand(result.shape)
        with pytest.raises(errors.ShapeError, match="single memory location"):
            op.function(**sample, out=same)
    if result.dtype is edutorch.float32 and not op.casts_out:
        double = edutorch.zeros(result.shape, dtype=edutorch.float64)
        with pytest.raises(errors.DTypeError, match="expected `out` to have the dtype"):
            op.function(**sample, out=double)


def test_numbers_are_taken_where_pytorch_takes_them(torch):
    x, y = edutorch.ones(3), torch.ones(3)
    for op in REGISTRY.values():
        theirs = getattr(torch, op.public[0], None)
        if not op.family.broadcasts or len(op.inputs) != 2 or theirs is None:
            continue
        for position in range(2):
            try:
                theirs(*(2.0 if position == i else y for i in range(2)))
            except TypeError:
                with pytest.raises(errors.EdutorchError, match=re.escape(op.public[0])):
                    op.function(*(2.0 if position == i else x for i in range(2)))
            except RuntimeError:
                continue  # not for floating numbers
            else:
                op.function(*(2.0 if position == i else x for i in range(2)))


x = tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
F = nn.functional

CALLS = {
    "shapes through out": lambda: edutorch.add(x, edutorch.ones(2), out=edutorch.empty(2, 3)),
    "shapes reflected": lambda: edutorch.Tensor.__rsub__(x, edutorch.ones(2)),
    "shapes of __rpow__": lambda: edutorch.Tensor.__rpow__(x, edutorch.ones(2)),
    "a number before __radd__": lambda: edutorch.Tensor.__radd__(2, x),
    "a number before __rand__": lambda: edutorch.Tensor.__rand__(2, 3),
    "step 0": lambda: edutorch.arange(0, 5, 0),
    "step 0 with out": lambda: edutorch.arange(0, 5, 0, out=edutorch.empty(0)),
    "movedim twice": lambda: x.movedim((0, 0), (0, 1)),
    "movedim uneven": lambda: x.movedim((0, 1), (1,)),
    "rot90 of one dim": lambda: x.rot90(dims=(0,)),
    "rot90 of a dim twice": lambda: x.rot90(dims=(1, 1)),
    "gradient along a dim twice": lambda: edutorch.gradient(x, dim=(1, 1)),
    "roll with too few dims": lambda: x.roll((1, 2), 0),
    "roll by nothing": lambda: x.roll(()),
    "flipud of a number": lambda: tensor(1.0).flipud(),
    "a negative rtol": lambda: x.isclose(x, rtol=-0.1),
    "a negative atol": lambda: x.allclose(x, atol=-0.1),
    "a bool as a start": lambda: x.narrow(0, tensor(True), 1),
    "dilation 0": lambda: F.max_pool2d(x[None], 1, dilation=0),
    "kernel 0": lambda: F.avg_pool2d(x[None], 0),
    "stride 0": lambda: F.conv1d(x[None], x[None], stride=0),
    "groups 0": lambda: F.conv_transpose1d(x[None], x[None].mT, groups=0),
    "no normalized shape": lambda: F.layer_norm(x, ()),
    "group_norm of a vector": lambda: F.group_norm(x[0], 1),
    "hstack of nothing": lambda: edutorch.hstack([]),
    "hsplit by text": lambda: x.hsplit("abc"),
    "steps that are no int": lambda: edutorch.linspace(0, 3, 1.0),
    "another dtype": lambda: x.cumsum(0, dtype=x),
    "a region outside": lambda: edutorch.as_strided_scatter(x, x, (2, 3), (200, 1)),
    "a padding mode": lambda: F.pad(x, (1, 1), "mirror"),
    "a limit that no integer reaches": lambda: F.hardtanh(tensor([1]), -1, float("inf")),
    "no channels": lambda: F.max_pool1d(edutorch.zeros(0, 10), 1),
    "no channels in a batch": lambda: F.avg_pool2d(edutorch.zeros(2, 0, 4, 4), 1),
    "more windows than memory": lambda: F.adaptive_avg_pool1d(x[None], 2**40),
    "weights of another dtype": lambda: F.nll_loss(x, tensor([0, 1]), edutorch.ones(3).double()),
    "a batch that does not match": lambda: F.cross_entropy(x, edutorch.ones(3, 2)),
    "True for a dim": lambda: x.sum(True),
    "True for a kernel": lambda: F.max_pool2d(x[None], True),
    "half a diagonal": lambda: x.triu(0.5),
    "a list for an index": lambda: x.select(0, [1]),
    "None for a momentum": lambda: F.batch_norm(x, None, None, training=True, momentum=None),
    "a number for a flag": lambda: x.topk(1, largest=0),
}


@pytest.mark.parametrize("title", CALLS)
def test_it_is_refused(title):
    with pytest.raises(errors.EdutorchError):
        CALLS[title]()


@pytest.mark.parametrize(
    ("function", "valid"),
    [
        (lambda: x[2], "-2 to 1"),
        (lambda: x[0, -4], "-3 to 2"),
        (lambda: x[tensor([5])], "-2 to 1"),
        (lambda: x.select(1, 3), "-3 to 2"),
        (lambda: x.gather(1, tensor([[3]])), "0 to 2"),
        (lambda: x.index_select(0, tensor([2])), "0 to 1"),
    ],
)
def test_an_index_outside_comes_with_the_valid_ones(function, valid):
    with pytest.raises(IndexError, match=f"valid indices are {valid}|size"):
        function()


# Layers --------------------------------------------------------------------------------------

LAYERS = {name: cases[0] for name, cases in CASES.items() if not name.startswith("Lazy")}
HAND_ON = {"Identity", "Sequential"}


def tensors_of(case):
    return [
        tuple(map(edutorch.from_numpy, value)) if isinstance(value, tuple) else
        edutorch.from_numpy(value) for value in values_of(case)
    ]  # fmt: skip


def test_what_a_layer_is_given():
    for name, case in LAYERS.items():
        if name not in HAND_ON and case.x:
            check_inputs(case)


def check_inputs(case):
    module, inputs, tensors = make(edutorch, case), values_of(case), tensors_of(case)
    wrong = [None, "abc", [1.0]] + [inputs[0]] * (not module._modules)
    for value in wrong:
        if isinstance(value, tuple):
            continue
        with pytest.raises(errors.EdutorchError):
            module(value, *tensors[1:], **convert_argument(edutorch, case.call))


def test_what_a_layer_is_made_of():
    for case in LAYERS.values():
        check_settings(case)


def check_settings(case):
    layer = getattr(nn, case.name)
    code = layer.__init__.__code__
    if code.co_flags & 8 or code.co_argcount + code.co_kwonlyargcount < 2:
        return
    known = code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount]
    with pytest.raises(errors.ArgumentError, match=f"did you mean `{known[-1]}`"):
        layer(*case.args, **case.settings, **{f"{known[-1]}s": 1})
    for position, value in enumerate(case.args):
        if type(value) is int:
            args = (*case.args[:position], "abc", *case.args[position + 1 :])
            wrong = dataclasses.replace(case, args=args)
            with pytest.raises(errors.EdutorchError):
                make(edutorch, wrong)(*tensors_of(case))
