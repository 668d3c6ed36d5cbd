"""The checks of one op on one sample: forward, gradient, method, in-place, `out=`, bad calls."""

from __future__ import annotations

import functools
import itertools
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import torch

import edutorch
from edutorch.errors import EdutorchError
from tests.slow import sample_exclusions as exclusions
from tests.slow.sample_comparison import disagreement, flatten
from tests.slow.sample_distribution import difference
from tests.slow.sample_translation import (
    NAMES,
    NoCounterpartError,
    map_tensors,
    other_seed,
    seeded,
    translate,
    translate_function,
    translate_together,
    widen,
)

DTYPES = (
    torch.float64,
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.bool,
    torch.complex64,
)
CRASHES = (Exception, RecursionError)
MISSING = "no first argument"


class Call(NamedTuple):
    """A sample: what an op is called with."""

    input: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    process: Callable[[Any], Any]

    def run(self, function: Callable[..., Any], **more: Any) -> Any:
        """Call a function with the sample; return what PyTorch would differentiate of it."""
        positional = self.args if self.input is MISSING else (self.input, *self.args)
        return function(*positional, **self.kwargs, **more)

    def leaves(self) -> list[Any]:
        """Return the tensors in it that want a gradient, in order."""
        return [
            tensor
            for tensor in tensors_in((self.input, self.args, self.kwargs))
            if tensor.requires_grad
        ]


def tensors_in(value: Any) -> Iterator[Any]:
    """Yield the tensors in nested lists, tuples and dicts, of PyTorch or of edutorch."""
    if isinstance(value, (torch.Tensor, edutorch.Tensor)):
        yield value
    elif isinstance(value, dict):
        yield from tensors_in(list(value.values()))
    elif isinstance(value, (tuple, list)):
        for part in value:
            yield from tensors_in(part)


def as_call(sample: Any) -> Call:
    """Return PyTorch's sample as a call."""
    return Call(
        sample.input, tuple(sample.args), dict(sample.kwargs), sample.output_process_fn_grad
    )


def translated(call: Call) -> Call:
    """Return the same call for edutorch."""
    return Call(*translate_together(*call[:3]), translate_function(call.process))


def widened(call: Call) -> Call:
    """Return the same call in float64."""
    return Call(widen(call.input), widen(call.args), widen(call.kwargs), call.process)


def copied(call: Call) -> Call:
    """Return the call on copies of its tensors, which no longer want gradients."""

    def copy(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.detach().clone()

    return Call(*(map_tensors(part, copy) for part in call[:3]), call.process)


def said(error: BaseException) -> str:
    """Return an error in one line."""
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0][:150] if text else ''}"


class Outcome(NamedTuple):
    """What came of one check: None is a pass."""

    check: str
    failure: str | None


def attempt(ours: Callable[[], Any], theirs: Callable[[], Any], **how: Any) -> str | None:
    """Compare two calls; where PyTorch refuses, so must edutorch.

    Returns:
        The difference in a few words, or None.
    """
    try:
        wanted = theirs()
    except CRASHES as refusal:
        try:
            ours()
        except CRASHES:
            return None
        return f"accepted, where PyTorch has {said(refusal)}"
    try:
        got = ours()
    except CRASHES as error:
        return said(error)
    return disagreement(got, wanted, **how)


def attempt_difference(
    ours: Callable[[int], Any], theirs: Callable[[int], Any], call: Call
) -> str | None:
    """Return how the distributions of two random functions differ, or the error of ours."""
    half = any(tensor.element_size() == 2 for tensor in tensors_in(call[:3]))
    try:
        return difference(ours, theirs, 1e-2 if half else 1e-6)
    except CRASHES as error:
        return said(error)


class OpChecker:
    """Makes the checks of one of PyTorch's OpInfos.

    Args:
        info: The OpInfo.
    """

    def __init__(self, info: Any) -> None:
        self.info = info
        self.name: str = info.name
        self.theirs = info.op
        self.ours = translate_function(info.op)
        self.invariant = exclusions.INVARIANTS.get(self.name)

    def samples(self, dtype: torch.dtype, requires_grad: bool) -> Iterator[Any]:
        """Yield PyTorch's samples of a type."""
        # The method of this name looks through the stack for the name of a test, for a second.
        yield from self.info.sample_inputs_func(self.info, "cpu", dtype, requires_grad)

    def differentiates(self, dtype: torch.dtype) -> bool:
        """Whether PyTorch has gradients for a type."""
        return self.info.supports_autograd and dtype in self.info.supported_backward_dtypes("cpu")

    def is_random(self, call: Call, wanted: Any) -> bool:
        """Whether the values are left to chance: a second call of PyTorch gives others."""
        if self.name in exclusions.UNINITIALIZED:
            return True
        if self.name not in exclusions.RANDOM:
            return False
        for shift in range(1, 13):
            with other_seed(shift):
                again = copied(call).run(self.theirs)
            if disagreement(again, wanted) is not None:
                return True
        return False

    def check(self, sample: Any) -> Iterator[Outcome]:
        """Yield the outcomes of all checks on one sample, the forward first."""
        call = as_call(sample)
        mine = translated(call)  # before PyTorch's op may write into it
        try:
            with seeded():
                wanted = call.run(self.theirs)
            flatten(wanted)
        except NoCounterpartError:
            raise
        except CRASHES as error:
            raise NoCounterpartError(f"PyTorch refuses its sample: {said(error)}") from error
        values = not self.is_random(call, wanted)
        yield self.forward(mine, call, wanted, values)
        if not values and self.name not in exclusions.UNINITIALIZED:
            yield Outcome("distribution", self.distribution(call))
        if values and any(
            isinstance(part, torch.Tensor) and part.requires_grad for part in tensors_in(wanted)
        ):
            yield Outcome("gradient", self.gradient(call))
        with torch.no_grad(), edutorch.no_grad():
            for variant_name, variant in self.variants():
                yield Outcome(variant_name, self.variant(variant, call, values))
            if self.info.supports_out and isinstance(wanted, (torch.Tensor, tuple)):
                yield Outcome("out=", self.out(call, wanted, values))

    def forward(self, mine: Call, call: Call, wanted: Any, values: bool) -> Outcome:
        """Compare the results: types, shapes, `requires_grad`, values."""
        try:
            with seeded():
                got = mine.run(self.ours)
        except NoCounterpartError:
            raise
        except CRASHES as error:
            return Outcome("forward", said(error))
        if self.invariant and values:
            failure = disagreement(got, wanted, values=False)
            if failure is None:
                got, wanted = self.invariant(edutorch, got), self.invariant(torch, wanted)
        failure = disagreement(
            got,
            wanted,
            lambda: self.judge(call),
            values=values,
            flags=self.invariant is None,
        )
        return Outcome("forward" if values else "shape", failure)

    def distribution(self, call: Call) -> str | None:
        """Compare what many calls draw."""

        def ours(seed: int) -> Any:
            with other_seed(seed), edutorch.no_grad():
                result = translated(copied(call)).run(self.ours)
                return self.invariant(edutorch, result) if self.invariant else result

        def theirs(seed: int) -> Any:
            with other_seed(seed), torch.no_grad():
                result = copied(call).run(self.theirs)
                return self.invariant(torch, result) if self.invariant else result

        return attempt_difference(ours, theirs, call)

    def judge(self, call: Call) -> Any:
        """Return PyTorch's answer in float64."""
        with seeded():
            result = widened(call).run(self.theirs)
        return self.invariant(torch, result) if self.invariant else result

    def gradient(self, call: Call) -> str | None:
        """Compare the gradients of a random weighting of all outputs.

        PyTorch's wrapper makes an input Hermitian or triangular where only such ones have one
        gradient.
        """
        theirs = functools.partial(self.info.gradcheck_wrapper, self.theirs)
        ours = functools.partial(translate_function(self.info.gradcheck_wrapper), self.ours)
        try:
            wanted = gradients(torch, theirs, call)
        except CRASHES:
            return None  # PyTorch has no rule here
        try:
            got = gradients(edutorch, ours, translated(call))
        except CRASHES as error:
            return said(error)
        for index, (left, right) in enumerate(zip(got, wanted, strict=True)):
            if left is None and right is None:
                continue
            like = call.leaves()[index]
            right = torch.zeros_like(like) if right is None else right
            left = translate(torch.zeros_like(right)) if left is None else left

            def judge(index: int = index, like: torch.Tensor = like) -> Any:
                exact = gradients(torch, theirs, widened(call))[index]
                return torch.zeros_like(like) if exact is None else exact

            failure = disagreement(left, right, judge)
            if failure:
                return f"by tensor {index}: {failure}"
        return None

    def variants(self) -> Iterator[tuple[str, Callable[..., Any]]]:
        """Yield PyTorch's other spellings of the op."""
        for variant_name, variant in (
            ("method", self.info.method_variant),
            ("in-place", self.info.inplace_variant),
            ("operator", self.info.operator_variant),
            ("in-place operator", self.info.inplace_operator_variant),
        ):
            if variant is not None and variant is not self.theirs:
                yield variant_name, variant

    def variant(self, variant: Callable[..., Any], call: Call, values: bool) -> str | None:
        """Compare a method or an in-place form; of the latter also what it wrote."""
        try:
            ours = translate_function(variant)
        except NoCounterpartError as missing:
            return f"no {missing}"
        call = copied(call)
        mine = translated(call)
        wide = widened(call)

        def run(which: Call, function: Callable[..., Any]) -> Any:
            result = which.run(function)
            if self.invariant and values:
                return self.invariant(torch if which is not mine else edutorch, result)
            return result, which.input

        with seeded():
            return attempt(
                lambda: run(mine, ours),
                lambda: run(call, variant),
                judge=lambda: run(wide, variant),
                values=values,
            )

    def out(self, call: Call, wanted: Any, values: bool) -> str | None:
        """Compare what is written into `out=`: of the right shape, and of no elements."""
        if not all(isinstance(part, torch.Tensor) for part in tensors_in(wanted)):
            return None
        call = copied(call)
        mine = translated(call)
        for empty in (False, True):
            targets = map_tensors(
                wanted,
                lambda part, empty=empty: torch.full(
                    (0,) if empty else part.shape, 1, dtype=part.dtype
                ),
            )
            if isinstance(targets, tuple):
                targets = tuple(targets)
            our_targets = translate(map_tensors(targets, torch.clone))  # what NumPy saw cannot grow

            def run(
                which: Call, function: Callable[..., Any], out: Any, module: Any
            ) -> tuple[Any, Any]:
                result = which.run(function, out=out)
                if self.invariant and values:
                    return self.invariant(module, result), self.invariant(module, out)
                return out if result is None else result, out

            with seeded(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                failure = attempt(
                    lambda: run(mine, self.ours, our_targets, edutorch),  # noqa: B023
                    lambda: run(call, self.theirs, targets, torch),  # noqa: B023
                    judge=lambda: (self.judge(call),) * 2,
                    values=values,
                )
            if failure:
                return f"{'empty ' if empty else ''}out: {failure}"
        return None

    def bad_calls(self) -> Iterator[tuple[str, str]]:
        """Yield how each of PyTorch's error inputs is answered: (answer, the call and the error).

        The answers: `clear` is an error of edutorch of the class that PyTorch raises, `class` one
        of another class, `unclear` any other exception, `accepted` none.
        """
        if self.info.error_inputs_func is None:
            return
        for bad in self.info.error_inputs_func(self.info, "cpu"):
            yield from classify(bad.error_type, as_call(bad.sample_input), self.theirs, self.ours)


def classify(
    expected: type[Exception], call: Call, theirs: Callable[..., Any], ours: Callable[..., Any]
) -> Iterator[tuple[str, str]]:
    """Yield how edutorch answers a bad call that PyTorch itself refuses."""
    try:
        mine = translated(call)
    except NoCounterpartError:
        return
    try:
        call.run(theirs)
    except CRASHES as error:
        wanted = said(error)
    else:
        return
    shown = ", ".join(map(brief, (call.input, *call.args, *call.kwargs.items())))
    try:
        mine.run(ours)
    except EdutorchError as error:
        answer = "clear" if isinstance(error, expected) else "class"
        yield answer, f"({shown}): {said(error)} for {wanted}"
    except CRASHES as error:
        yield "unclear", f"({shown}): {said(error)} for {wanted}"
    else:
        yield "accepted", f"({shown}) for {wanted}"


def brief(value: Any) -> str:
    """Return an argument in a few words."""
    if isinstance(value, torch.Tensor):
        return f"{NAMES.get(value.dtype, value.dtype)}{list(value.shape)}"
    if isinstance(value, (tuple, list)):
        return f"[{', '.join(map(brief, value))}]"
    return repr(value)[:60]


def gradients(module: Any, function: Callable[..., Any], call: Call) -> list[Any]:
    """Return the gradients of a call's leaves, for weights that both modules draw alike."""
    with seeded():
        result = call.process(call.run(function))
    generator = np.random.default_rng(0)
    weighted = [
        (part, weight_like(module, part, generator))
        for part in tensors_in(result)
        if part.is_floating_point() or part.is_complex()
    ]
    outputs, weights = zip(*(pair for pair in weighted if pair[0].requires_grad), strict=True)
    return list(module.autograd.grad(outputs, call.leaves(), weights, allow_unused=True))


def weight_like(module: Any, tensor: Any, generator: np.random.Generator) -> Any:
    """Return random weights of a tensor's shape and type, rounded so that all hold them."""
    shape = tuple(tensor.shape)
    array = np.round(generator.standard_normal(shape) * 32) / 32
    if tensor.is_complex():
        array = array + 1j * np.round(generator.standard_normal(shape) * 32) / 32
    array = np.asarray(array)
    if module is torch:
        return torch.from_numpy(array).to(tensor.dtype)
    name = str(tensor.dtype).removeprefix("torch.")
    dtype = ml_dtypes.bfloat16 if name == "bfloat16" else np.dtype(name)
    return edutorch.from_numpy(array.astype(dtype))


def first(samples: Iterator[Any], limit: int | None) -> Iterator[Any]:
    """Yield all samples, or the first few."""
    return itertools.islice(samples, limit)
