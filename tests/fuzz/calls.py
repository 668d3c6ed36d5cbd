"""A call as data, and its execution by a library."""

from __future__ import annotations

import os
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tests.devices import DEVICES, OTHER

from .tensors import COMPLEX, WIDE, TensorSpec, make, perturb, view_of

MODES = ("forward", "backward", "second", "jvp", "compile", "autocast", "out", "strict")
"""What is done with a call. All but `forward` and `out` also take gradients."""


@dataclass(frozen=True)
class Dtype:
    """An argument that is a dtype of the library."""

    name: str


@dataclass(frozen=True)
class Call:
    """A public call.

    Args:
        path: where the function, method or class lies: "nn.functional.relu", "Tensor.add_",
            "nn.Linear", "distributions.Normal.log_prob", "optim.Adam".
        args, settings: its arguments; of a class, those of its constructor.
        inputs: what an instance of the class is called with.
        mode: see `MODES`.
        training: whether a module is in training mode.
    """

    path: str
    args: tuple[Any, ...] = ()
    settings: dict[str, Any] = field(default_factory=dict)
    inputs: tuple[Any, ...] = ()
    mode: str = "forward"
    training: bool = True

    def specs(self) -> Iterator[TensorSpec]:
        """Yield the tensors among the arguments, in order."""
        for value in (*self.args, *self.settings.values(), *self.inputs):
            yield from specs_in(value)

    def noise(self) -> tuple[str, int] | None:
        """Return the dtype and the seed by which all that enters a call is moved, if it is."""
        spec = next((spec for spec in self.specs() if spec.nudge), None)
        return None if spec is None else (spec.through, spec.nudge)

    def change(self, function: Callable[[Any], Any]) -> Call:
        """Return the call with each tensor and dtype among its arguments replaced."""
        return replace(
            self,
            args=tuple(convert(value, function) for value in self.args),
            settings={key: convert(value, function) for key, value in self.settings.items()},
            inputs=tuple(convert(value, function) for value in self.inputs),
        )

    def wide(self, nudge: int = 0) -> Call:
        """Return the call as the judge makes it: the same numbers in float64."""

        def widen(value: Any) -> Any:
            if isinstance(value, TensorSpec):
                return value.wide(nudge and nudge + value.seed % 1000)
            return Dtype(WIDE.get(value.name, value.name)) if isinstance(value, Dtype) else value

        mode = {"autocast": "backward", "compile": "backward", "strict": "backward"}
        return replace(self.change(widen), mode=mode.get(self.mode, self.mode))


def specs_in(value: Any) -> Iterator[TensorSpec]:
    if isinstance(value, TensorSpec):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from specs_in(item)


def convert(value: Any, function: Callable[[Any], Any]) -> Any:
    """Replace tensors and dtypes in an argument, at any depth."""
    if isinstance(value, (list, tuple)):
        return type(value)(convert(item, function) for item in value)
    return function(value) if isinstance(value, (TensorSpec, Dtype)) else value


@dataclass
class Result:
    """One tensor, number or text that came out of a call."""

    label: str
    dtype: str
    shape: tuple[int, ...]
    value: Any
    requires_grad: bool = False


@dataclass
class Outcome:
    """All that came out of a call, or the error that did."""

    results: list[Result]
    error: BaseException | None = None
    stage: str = ""


def run_call(call: Call, torch: Any, is_reference: bool = False) -> Outcome:
    """Carry out a call in a library; errors are part of the outcome."""
    results: list[Result] = []
    stage = ["forward"]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            perform(call, torch, results, stage, is_reference)
        except (Exception, RecursionError) as error:  # noqa: BLE001  an error is an answer, too
            if "illegal memory access" in str(error):
                os.abort()  # whatever a GPU is asked for after that fails: this call is a crash
            return Outcome(results, error, stage[0])
    return Outcome(results)


def device_of(call: Call, library: Any) -> str:
    """Return where a call is made: on the CPU, if EDUTORCH_TEST_DEVICES=cuda does not move ours."""
    if getattr(library, "__name__", "") != "edutorch":
        return "cpu"
    return OTHER if call.mode == "strict" else DEVICES[0]


def perform(call: Call, torch: Any, results: list[Result], stage: list[str], plain: bool) -> None:
    """Append what comes out of a call, forward first, to `results`."""
    leaves = [make(spec, torch, device_of(call, torch)) for spec in call.specs()]
    program = Program(call, torch)
    function = program.run
    watched = [leaf for leaf in leaves if leaf.requires_grad]
    if call.mode == "jvp":
        stage[0] = "jvp"
        pushed = push_forward(function, leaves, torch, call.noise())
        results += [
            one for index, tangent in enumerate(pushed) for one in flatten(tangent, f"jvp{index}")
        ]
        return
    if call.mode == "compile" and not plain:
        function = torch.compile(function)
    context = nullcontext()
    if call.mode == "autocast":
        context = torch.autocast("cpu", dtype=torch.bfloat16)
    with context:
        output = function(leaves)
    results += flatten(output, "output")
    if call.mode == "out":
        stage[0] = "out"
        results += flatten(into_out(call, torch, output), "out")
    elif call.mode != "forward":
        stage[0] = "backward"
        take_gradients(call, torch, output, [*watched, *program.parameters], results, stage)


class Program:
    """A call as a function of its tensors."""

    def __init__(self, call: Call, torch: Any) -> None:
        self.call, self.torch = call, torch
        self.parameters: list[Any] = []  # of the module that a call has made

    def arguments(self, leaves: list[Any]) -> tuple[list[Any], dict[str, Any], list[Any]]:
        """Return args, settings and inputs with tensors of the library in place of specs."""
        left = iter(leaves)

        def put(value: Any) -> Any:
            if isinstance(value, Dtype):
                return getattr(self.torch, value.name)
            leaf = next(left)
            written = self.call.path.endswith("_") and leaf.requires_grad
            return view_of(leaf * 1 if written else leaf, value)

        call = self.call
        args = [convert(value, put) for value in call.args]
        settings = {key: convert(value, put) for key, value in call.settings.items()}
        return args, settings, [convert(value, put) for value in call.inputs]

    def run(self, leaves: list[Any]) -> Any:
        try:
            return self.execute(leaves)
        except Exception as error:
            forget_frames(error)  # still within the modes of the call
            raise

    def execute(self, leaves: list[Any]) -> Any:
        args, settings, inputs = self.arguments(leaves)
        owner = self.call.path.split(".")[0]
        if owner == "optim":
            return self.steps(args, settings, inputs)
        if owner == "distributions":
            return self.ask(args, settings, inputs)
        function = resolve(self.torch, self.call.path)
        if isinstance(function, type) and self.call.path.startswith("nn."):
            module = function(*args, **settings)
            prepare(module, self.torch, inputs, self.call)
            output = module(*inputs)
            self.parameters = [*module.parameters()]
            return output
        return function(*args, **settings)

    def ask(self, args: list[Any], settings: dict[str, Any], inputs: list[Any]) -> Any:
        """Ask a distribution for a method or an attribute."""
        path, _, question = self.call.path.rpartition(".")
        distribution = resolve(self.torch, path)(*args, **settings)
        asked = getattr(distribution, question)
        return asked(*inputs) if callable(asked) else asked

    def steps(self, args: list[Any], settings: dict[str, Any], inputs: list[Any]) -> Any:
        """Make a step of an optimizer with each of the gradients in `inputs`.

        The judge's parameter and state are rounded after each step, as 16 bits keep them.
        """
        narrow = self.call.args[0].through
        if self.call.path == "optim.Adafactor" and narrow:  # its ε is that of the type
            settings.setdefault("eps", (self.torch.finfo(getattr(self.torch, narrow)).eps, 1e-3))
        parameter = self.torch.nn.Parameter(args[0].detach().clone())
        optimizer = resolve(self.torch, self.call.path)([parameter], **settings)
        for gradient in inputs:
            parameter.grad = gradient.detach().clone()
            optimizer.step(*[lambda: (parameter * 0).sum()] * (self.call.path == "optim.LBFGS"))
            if narrow in ("float16", "bfloat16"):
                held = [parameter, *tensors_in([*optimizer.state[parameter].values()])]
                round_all(held, self.torch, getattr(self.torch, narrow))
        return parameter.detach()


def round_all(tensors: list[Any], torch: Any, dtype: Any) -> None:
    """Round tensors of float64 to what a narrower type keeps of them."""
    with torch.no_grad():
        for tensor in tensors:
            if tensor.dtype == torch.float64:
                tensor.copy_(tensor.to(dtype))


def forget_frames(error: BaseException | None) -> None:
    """Let go of all that the functions held that an error came through.

    PyTorch prints a tensor under a guard that puts modes back when it is collected: kept by a
    traceback, it switched autocast on again, some calls later.
    """
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error.__traceback__, error = None, error.__context__


def resolve(torch: Any, path: str) -> Any:
    value = torch
    for name in path.split("."):
        value = getattr(value, name)
    return value


def prepare(module: Any, torch: Any, inputs: list[Any], call: Call) -> None:
    """Give a module parameters that depend on their names only, and the dtype of its inputs."""
    module.train(call.training)
    floats = [x for x in inputs if hasattr(x, "is_floating_point") and x.is_floating_point()]
    if floats:
        module.to(floats[0].dtype)
    with torch.no_grad():
        for index, parameter in enumerate(module.parameters()):
            rng = np.random.default_rng(index)
            values = np.asarray(rng.integers(-8, 9, tuple(parameter.shape)) / 16)
            parameter.copy_(torch.from_numpy(perturb_values(values, call.noise(), index)))
    if inputs and str(getattr(inputs[0], "device", "cpu")) != "cpu":
        module.to(inputs[0].device)


def flatten(value: Any, label: str) -> list[Result]:
    """Return the tensors and other values in an output, each with its label."""
    if hasattr(value, "requires_grad") and hasattr(value, "detach"):
        return [tensor_result(value, label)]
    if isinstance(value, (list, tuple)):
        parts = [flatten(item, f"{label}[{index}]") for index, item in enumerate(value)]
        return [Result(label, "sequence", (len(value),), None), *(one for p in parts for one in p)]
    if isinstance(value, (bool, int, float, complex)):
        array = np.asarray(value)
        return [Result(label, f"python {type(value).__name__}", (), array)]
    if value is None or isinstance(value, str):
        return [Result(label, type(value).__name__, (), value)]
    return [Result(label, "other", (), None)]


def tensor_result(tensor: Any, label: str) -> Result:
    dtype = str(tensor.dtype).rpartition(".")[2]
    value = tensor.detach()
    if hasattr(value, "resolve_conj"):
        value = value.resolve_conj().resolve_neg()
    if "float" in dtype:
        value = value.double()
    array = value.cpu().numpy()
    return Result(label, dtype, tuple(tensor.shape), array, bool(tensor.requires_grad))


def tensors_in(value: Any) -> list[Any]:
    if hasattr(value, "requires_grad") and hasattr(value, "detach"):
        return [value]
    if isinstance(value, (list, tuple)):
        return [tensor for item in value for tensor in tensors_in(item)]
    return []


def perturb_values(values: np.ndarray, noise: tuple[str, int] | None, seed: int) -> np.ndarray:
    """Return the numbers that enter a call beside its tensors as the judge moves those."""
    return values if noise is None else perturb(values, noise[0], noise[1] + 1009 * (seed + 1))


def cotangent(tensor: Any, torch: Any, seed: int, noise: tuple[str, int] | None = None) -> Any:
    """Return weights for an output: quarters, which every dtype holds exactly.

    All are above 0, so that sums of them do not cancel and leave only rounding.
    """
    rng = np.random.default_rng(seed)
    quarters = rng.integers(1, 7, tuple(tensor.shape)) / 4
    weights = torch.from_numpy(perturb_values(np.asarray(quarters), noise, seed)).to(tensor.dtype)
    return weights.to(tensor.device) if str(tensor.device) != "cpu" else weights


def take_gradients(
    call: Call, torch: Any, output: Any, leaves: list[Any], results: list[Result], stage: list[str]
) -> None:
    """Append first (and second) derivatives of an output by the leaves."""
    outputs = [tensor for tensor in tensors_in(output) if tensor.requires_grad]
    if not outputs or not leaves:
        return
    noise = call.noise()
    weights = [cotangent(output, torch, index, noise) for index, output in enumerate(outputs)]
    create = call.mode == "second"
    gradients = torch.autograd.grad(
        outputs, leaves, weights, allow_unused=True, create_graph=create
    )
    append_gradients(gradients, leaves, "gradient", results)
    if create:
        stage[0] = "second"
        # By the leaf, not by the place among these: a library may know that one is constant.
        seconds = {7 + index: gradient for index, gradient in enumerate(gradients)
                   if gradient is not None and gradient.requires_grad}  # fmt: skip
        weights = [cotangent(g, torch, seed, noise) for seed, g in seconds.items()]
        second = [None] * len(leaves)
        if seconds:
            second = torch.autograd.grad([*seconds.values()], leaves, weights, allow_unused=True)
        append_gradients(second, leaves, "second", results)


def append_gradients(gradients: Any, leaves: list[Any], label: str, results: list[Result]) -> None:
    """A gradient that is None counts as zeros: for its user it is the same."""
    for index, (gradient, leaf) in enumerate(zip(gradients, leaves, strict=True)):
        if gradient is None:
            dtype = str(leaf.dtype).rpartition(".")[2]
            zeros = np.zeros(tuple(leaf.shape), complex if dtype in COMPLEX else float)
            results.append(Result(f"{label}{index}", dtype, tuple(leaf.shape), zeros))
        else:
            results += flatten(gradient.detach(), f"{label}{index}")


def push_forward(
    function: Callable[..., Any], leaves: list[Any], torch: Any, noise: tuple[str, int] | None
) -> Any:
    """Return outputs and their tangents, by forward mode."""
    moving = [index for index, leaf in enumerate(leaves) if leaf.requires_grad]

    def of_moving(*tensors: Any) -> Any:
        filled = list(leaves)
        for index, tensor in zip(moving, tensors, strict=True):
            filled[index] = tensor
        return tuple(tensors_in(function(filled)))

    primals = tuple(leaves[index].detach() for index in moving)
    tangents = tuple(cotangent(x, torch, index, noise) for index, x in enumerate(primals))
    return torch.func.jvp(of_moving, primals, tangents)


def into_out(call: Call, torch: Any, output: Any) -> Any:
    """Make the call again into tensors of the right shape, without gradients."""
    outs = [torch.zeros_like(tensor.detach()) for tensor in tensors_in(output)]
    plain = call.change(lambda v: replace(v, grad=False) if isinstance(v, TensorSpec) else v)
    leaves = [make(spec, torch, device_of(call, torch)) for spec in plain.specs()]
    args, settings, _ = Program(plain, torch).arguments(leaves)
    out = outs[0] if len(outs) == 1 and not isinstance(output, tuple) else tuple(outs)
    resolve(torch, call.path)(*args, **settings, out=out)
    return out
