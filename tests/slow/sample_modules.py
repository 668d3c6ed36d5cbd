"""The checks of one module of PyTorch on its samples: forward, gradients, bad calls."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import torch

import edutorch
from tests.slow import sample_exclusions as exclusions
from tests.slow.sample_checks import (
    CRASHES,
    MISSING,
    Call,
    Outcome,
    attempt_difference,
    classify,
    gradients,
    said,
    translated,
    widened,
)
from tests.slow.sample_comparison import disagreement
from tests.slow.sample_translation import (
    WIDER,
    NoCounterpartError,
    other_seed,
    seeded,
    translate,
    widen,
)


def forward_call(inputs: Any) -> Call:
    """Return what PyTorch's sample calls a module with."""
    args = tuple(inputs.forward_input.args)
    kwargs = dict(inputs.forward_input.kwargs)
    return Call(args[0], args[1:], kwargs, same) if args else Call(MISSING, (), kwargs, same)


def same(result: Any) -> Any:
    """Return the result itself: the whole of it is differentiated."""
    return result


class ModuleChecker:
    """Makes the checks of one of PyTorch's ModuleInfos.

    Args:
        info: The ModuleInfo.
    """

    def __init__(self, info: Any) -> None:
        self.info = info
        self.name: str = info.module_cls.__name__
        self.ours = getattr(edutorch.nn, self.name)

    def differentiates(self, dtype: torch.dtype) -> bool:
        """Whether the samples want gradients."""
        return dtype.is_floating_point or dtype.is_complex

    def samples(self, dtype: torch.dtype, requires_grad: bool) -> Iterator[Any]:
        """Yield samples, for training and for evaluation, each with its dtype."""
        for training in (True, False):
            for sample in self.info.module_inputs_func(
                self.info, device="cpu", dtype=dtype, requires_grad=requires_grad, training=training
            ):
                yield sample, dtype, training

    def check(self, sample: Any) -> Iterator[Outcome]:
        """Yield the outcomes of the forward and of the gradients."""
        inputs, dtype, training = sample
        try:
            module = self.build(inputs, dtype, training)
            call = forward_call(inputs)
            with seeded():
                wanted = call.run(module)
        except NoCounterpartError:
            raise
        except CRASHES as error:
            raise NoCounterpartError(f"PyTorch refuses its sample: {said(error)}") from error
        values = not self.is_random(module, call, wanted)
        try:
            mine = translated(call)
            ours = self.build_ours(inputs, module, dtype, training)
            with seeded():
                got = mine.run(ours)
        except NoCounterpartError:
            raise
        except CRASHES as error:
            yield Outcome("forward", said(error))
            return
        wide = self.build_wide(inputs, module, dtype, training)

        def judge() -> Any:
            return widened(call).run(wide)

        failure = disagreement(got, wanted, judge, values=values, flags=True)
        yield Outcome("forward" if values else "shape", failure)
        if not values:
            yield Outcome("distribution", self.distribution(call, module, ours))
        if not values or (not call.leaves() and not list(module.parameters())):
            return
        yield Outcome("gradient", self.gradient(call, mine, module, ours, wide))

    def distribution(self, call: Call, module: Any, ours: Any) -> str | None:
        """Compare what many calls draw."""

        def run_ours(seed: int) -> Any:
            with other_seed(seed), edutorch.no_grad():
                return translated(call).run(ours)

        def run_theirs(seed: int) -> Any:
            with other_seed(seed), torch.no_grad():
                return call.run(module)

        return attempt_difference(run_ours, run_theirs, call)

    def gradient(self, call: Call, mine: Call, module: Any, ours: Any, wide: Any) -> str | None:
        """Compare the gradients of the inputs and of the parameters."""

        def all_gradients(library: Any, which: Call, layer: Any) -> list[Any]:
            extra = tuple(parameter for parameter in layer.parameters() if parameter.requires_grad)

            def run(*args: Any, **kwargs: Any) -> Any:
                return layer(*args[: len(args) - len(extra)], **kwargs)

            return gradients(library, run, which._replace(args=which.args + extra))

        try:
            wanted = all_gradients(torch, call, module)
        except CRASHES:
            return None
        try:
            got = all_gradients(edutorch, mine, ours)
        except CRASHES as error:
            return said(error)
        exact: list[Any] = []
        for index, (left, right) in enumerate(zip(got, wanted, strict=True)):
            if left is None or right is None:
                if left is not right:
                    return f"gradient {index}: {left is not None} for {right is not None}"
                continue

            def judge(index: int = index) -> Any:
                if not exact:
                    exact.extend(all_gradients(torch, widened(call), wide))
                return exact[index]

            failure = disagreement(left, right, judge)
            if failure:
                return f"gradient {index}: {failure}"
        return None

    def build(self, inputs: Any, dtype: torch.dtype, training: bool) -> Any:
        """Return PyTorch's module of a sample."""
        arguments = inputs.constructor_input
        with seeded():
            module = self.info.module_cls(*arguments.args, **arguments.kwargs)
        return module.to(dtype).train(training)

    def build_ours(self, inputs: Any, module: Any, dtype: torch.dtype, training: bool) -> Any:
        """Return edutorch's module with the same parameters and buffers."""
        arguments = inputs.constructor_input
        ours = self.ours(*translate(arguments.args), **translate(arguments.kwargs))
        ours = ours.to(translate(dtype)).train(training)
        if "Lazy" in self.name:
            translated(forward_call(inputs)).run(ours)
        state = {name: translate(value.detach()) for name, value in module.state_dict().items()}
        ours.load_state_dict(state)
        return ours

    def build_wide(self, inputs: Any, module: Any, dtype: torch.dtype, training: bool) -> Any:
        """Return PyTorch's module in float64: the judge."""
        arguments = inputs.constructor_input
        wide = self.info.module_cls(*widen(arguments.args), **widen(arguments.kwargs))
        wide = wide.to(WIDER.get(dtype, dtype)).train(training)
        if "Lazy" in self.name:
            widened(forward_call(inputs)).run(wide)
        wide.load_state_dict(module.state_dict())
        return wide

    def is_random(self, module: Any, call: Call, wanted: Any) -> bool:
        """Whether another seed gives PyTorch's module other values."""
        if self.name not in exclusions.RANDOM_MODULES:
            return False
        for shift in range(1, 7):
            with other_seed(shift):
                if disagreement(call.run(module), wanted) is not None:
                    return True
        return False

    def bad_calls(self) -> Iterator[tuple[str, str]]:
        """Yield how each of PyTorch's error inputs is answered, as `OpChecker.bad_calls` does."""
        if self.info.module_error_inputs_func is None:
            return
        for bad in self.info.module_error_inputs_func(
            self.info, device="cpu", dtype=torch.float32, requires_grad=False, training=False
        ):
            inputs = bad.module_error_input
            built = inputs.constructor_input
            called = inputs.forward_input if "FORWARD" in str(bad.error_on) else None
            parts = (built.args, built.kwargs, called and called.args, called and called.kwargs)
            yield from classify(
                bad.error_type,
                Call(MISSING, parts, {}, same),
                functools.partial(build_and_call, self.info.module_cls),
                functools.partial(build_and_call, self.ours),
            )


def build_and_call(
    module: Any, args: Any, kwargs: Any, call_args: Any = None, call_kwargs: Any = None
) -> Any:
    """Build a layer; call it, where there is something to call it with."""
    layer = module(*args, **kwargs)
    return layer if call_args is None else layer(*call_args, **call_kwargs)
