"""Every module of PyTorch against its own, over the settings in `module_cases`.

The names come from `torch.nn`: a module without a case and without a reason in `EXCLUDED` fails.
"""

from __future__ import annotations

import copy
import inspect
import pickle
import warnings
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import edutorch
from edutorch import nn
from tests.devices import OTHER
from tests.module_cases import CASES, EXCLUDED, Case, Made, every_case
from tests.module_starts import STARTS, WITHOUT_START
from tests.nn.compare import assert_close, ours_of
from tests.trials import tried

EVERY = list(every_case())
LOOSE = {"rtol": 2e-4, "atol": 2e-5}

pytestmark = pytest.mark.filterwarnings("ignore")


def modules_of(library_nn: Any) -> set[str]:
    """Return the names of all public modules of a library."""
    return {
        name
        for name, value in vars(library_nn).items()
        if inspect.isclass(value) and issubclass(value, library_nn.Module) and name[0] != "_"
    }


def test_every_module_of_pytorch_is_tried(torch):
    assert modules_of(torch.nn) - set(CASES) - set(EXCLUDED) == set()


def test_every_module_is_tried():
    assert modules_of(nn) - set(CASES) - set(EXCLUDED) == set()
    assert set(CASES) <= modules_of(nn)


def test_modules_are_tried_in_several_settings():
    alone = {"Softmax2d", "Identity"}
    assert {name for name, cases in CASES.items() if len(cases) < 2} - alone == set()
    assert not set(CASES) & set(EXCLUDED)
    assert all(EXCLUDED.values())


# Making both -------------------------------------------------------------------------------


def convert_argument(library: Any, value: Any, device: str | None = None) -> Any:
    """Convert an argument of a case for a library."""
    if isinstance(value, Made):
        return value.make(library.nn)
    if isinstance(value, np.ndarray):
        return library.tensor(value, **({} if device is None else {"device": device}))
    if isinstance(value, list) and value and isinstance(value[0], np.ndarray):
        return [convert_argument(library, item, device) for item in value]
    if isinstance(value, dict):
        return {key: convert_argument(library, item, device) for key, item in value.items()}
    return value


def make(library: Any, case: Case, device: str | None = None) -> Any:
    """Create the module of a case with a library."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        args = [convert_argument(library, argument, device) for argument in case.args]
        return getattr(library.nn, case.name)(
            *args, **convert_argument(library, case.settings, device)
        )


def values_of(case: Case) -> list[Any]:
    """Return the inputs of a case as arrays, a pair of states as a tuple of them."""
    random = np.random.default_rng(zlib.crc32(str(case).encode()))

    def one(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return value
        if value and isinstance(value[0], tuple):
            return tuple(one(part) for part in value)
        return random.normal(size=value) * 1.5

    return [one(value) for value in case.x or ()]


def start(torch: Any, case: Case, dtype: str, device: str) -> tuple[Any, Any]:
    """Return the module of both libraries, with PyTorch's weights in both."""
    torch.manual_seed(1)
    theirs, ours = make(torch, case), make(edutorch, case, device).to(device)
    theirs, ours = (module.to(getattr(lib, dtype)) for module, lib in
                    ((theirs, torch), (ours, edutorch)))  # fmt: skip
    if case.name.startswith("Lazy"):
        x = values_of(case)
        theirs(torch.tensor(x[0], dtype=getattr(torch, dtype)))
        ours(edutorch.zeros(*x[0].shape, dtype=getattr(edutorch, dtype), device=device))
    with torch.no_grad():
        for buffer in theirs.buffers():
            if buffer.is_floating_point():
                buffer.uniform_(0.5, 1.5)
        for parameter in theirs.parameters():
            if bool((parameter == parameter.flatten()[0]).all()):  # norms begin with 0 and 1
                parameter.add_(torch.randn_like(parameter) / 4)
    state = {key: ours_of(value, device) for key, value in theirs.state_dict().items()}
    ours.load_state_dict(state)
    return ours, theirs


def tensors(value: Any, library: Any) -> Iterator[Any]:
    """Yield the tensors of a nested output."""
    if isinstance(value, library.Tensor):
        yield value
    elif isinstance(value, tuple | list):
        for item in value:
            yield from tensors(item, library)


def called(library: Any, module: Any, case: Case, dtype: str, device: str) -> dict[str, Any]:
    """Run forward and backward of a module; return outputs, gradients and buffers by name."""
    place: dict[str, Any] = {} if library is not edutorch else {"device": device}
    leaves: list[Any] = []

    def as_input(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(as_input(part) for part in value)
        made = library.tensor(value, **place)
        if not made.is_floating_point():
            return made
        made = made.to(getattr(library, dtype))
        if case.grads is None or len(leaves) in case.grads:
            made.requires_grad_()
        leaves.append(made)
        return made * 1  # which a module may write into

    x = [as_input(value) for value in values_of(case)]
    settings = {}
    for key, value in case.call.items():
        settings[key] = convert_argument(library, value, place.get("device"))
        if isinstance(value, np.ndarray) and value.dtype.kind == "f":
            settings[key] = settings[key].to(getattr(library, dtype))
    module.zero_grad()
    outputs = list(tensors(module(*x, **settings), library))
    results = {f"output {i}": output for i, output in enumerate(outputs)}
    total: Any = None
    for output in outputs:
        if output.requires_grad:
            weights = np.cos(np.arange(output.numel())).reshape(tuple(output.shape))
            part = (output * library.tensor(weights, **place).to(output)).sum()
            total = part if total is None else total + part
    if total is not None and not case.only_values:
        total.backward()
        results |= {f"gradient of input {i}": leaf.grad for i, leaf in enumerate(leaves)}
        results |= {f"gradient of {name}": p.grad for name, p in module.named_parameters()}
    return results | {f"buffer {name}": buffer for name, buffer in module.named_buffers()}


def compare(torch: Any, case: Case, training: bool, dtype: str, device: str, **near: Any) -> None:
    """Compare outputs, gradients and buffers of a module with PyTorch's."""
    if training and case.random:
        return  # compared as a distribution below
    # An older PyTorch lacks some modules: then the CPU is what another device is compared with.
    oracle = torch if hasattr(torch.nn, case.name) or device == "cpu" else edutorch
    ours, theirs = start(oracle, case, dtype, device)
    ours.train(training)
    theirs.train(training)
    results = called(edutorch, ours, case, dtype, device)
    expected = called(oracle, theirs, case, dtype, "cpu")
    assert list(results) == list(expected)
    for what, value in expected.items():
        assert_close(results[what], value, f"{what}, training={training}", **near)


CALLED = [case for case in EVERY if case.x is not None]
FIRST = [next(case for case in cases if not case.random) for cases in CASES.values()]


@pytest.mark.parametrize("name", dict.fromkeys(case.name for case in CALLED))
@tried("case", lambda name, **_: [case for case in CALLED if case.name == name])
def test_numbers_equal_pytorchs(name, case, torch):
    for training in (True, False):
        compare(torch, case, training, "float64", "cpu")


FIRST_CALLED = [case for case in FIRST if case.x is not None]


@pytest.mark.parametrize("case", FIRST_CALLED, ids=lambda case: case.name)
def test_numbers_of_another_device_equal_pytorchs(case, torch):
    compare(torch, case, True, "float64", OTHER)


@pytest.mark.parametrize("case", FIRST_CALLED, ids=str)
def test_numbers_of_float32_equal_pytorchs(case, torch):
    for training in (True, False):
        compare(torch, case, training, "float32", "cpu", **LOOSE)


# Random modules ------------------------------------------------------------------------------

LARGE = {"Dropout": (60, 80), "AlphaDropout": (60, 80), "RReLU": (60, 80),
         "Dropout1d": (60, 80, 8), "Dropout2d": (60, 80, 4, 2), "Dropout3d": (60, 80, 2, 2, 2),
         "FeatureAlphaDropout": (60, 80, 4, 2)}  # fmt: skip
IN_PARTS = {"RNN", "GRU", "LSTM", "TransformerEncoderLayer", "TransformerDecoderLayer"}


def test_random_modules_are_known():
    assert {case.name for case in EVERY if case.random} == {*LARGE, *IN_PARTS}


@pytest.mark.parametrize("name", LARGE)
def test_random_outputs_have_pytorchs_distribution(name, torch):
    (case, *_) = (case_ for case_ in CASES[name] if case_.random)
    x = np.random.default_rng(0).normal(size=LARGE[name]).astype(np.float32)
    expected = make(torch, case)(torch.tensor(x)).numpy()
    result = make(edutorch, case)(edutorch.tensor(x)).numpy()
    share = np.linspace(0, 1, 21)[1:-1]
    np.testing.assert_allclose(
        np.quantile(result, share), np.quantile(expected, share), rtol=0.1, atol=0.12
    )
    assert abs(result.mean() - expected.mean()) < 0.1 and abs(result.std() - expected.std()) < 0.1

    def whole(y: np.ndarray) -> float:
        """Return how many channels are one number."""
        rows = y.reshape(60 * 80, -1)
        return float((rows.max(1) == rows.min(1)).mean())

    assert abs(whole(result) - whole(expected)) < 0.05


@pytest.mark.parametrize("name", sorted(IN_PARTS))
def test_dropout_inside_is_as_random_as_pytorchs(name, torch):
    """The variance of the outputs over many calls, with the same weights."""
    (case, *_) = (case_ for case_ in CASES[name] if case_.random)
    ours, theirs = start(torch, case, "float32", "cpu")
    spread = []
    for library, module in ((edutorch, ours), (torch, theirs)):
        x = [library.tensor(value).to(library.float32) for value in values_of(case)]
        with library.no_grad():
            outputs = [next(tensors(module(*x), library)).numpy() for _ in range(150)]
        spread.append((np.mean(outputs, 0), np.std(outputs, 0)))
    (mean, deviation), (expected, wanted) = spread
    assert wanted.mean() > 0.01
    assert np.abs(mean - expected).max() < 6 * wanted.max() / np.sqrt(150) + 0.02
    assert deviation.mean() == pytest.approx(wanted.mean(), rel=0.15)


# State ---------------------------------------------------------------------------------------


def described(module: Any) -> dict[str, Any]:
    """Return a module's listings: names, shapes and dtypes of its members."""
    state = module.state_dict()

    def sizes(values: Any) -> list[Any]:
        return [(name, lazy_shape(tensor), str(tensor.dtype)) for name, tensor in values]

    return {
        "text": repr(module), "settings": module.extra_repr(), "state": sizes(state.items()),
        "versions": dict(state._metadata), "parameters": sizes(module.named_parameters()),
        "buffers": sizes(module.named_buffers()),
        "wanted": [parameter.requires_grad for parameter in module.parameters()],
        "modules": [(name, child._get_name()) for name, child in module.named_modules()],
        "children": [name for name, _ in module.named_children()],
        "training": [child.training for child in module.modules()],
    }  # fmt: skip


def lazy_shape(value: Any) -> Any:
    return None if "Uninitialized" in type(value).__name__ else tuple(value.shape)


@pytest.mark.parametrize("name", dict.fromkeys(case.name for case in EVERY))
@tried("case", lambda name, **_: [case for case in EVERY if case.name == name])
def test_state_equals_pytorchs(name, case, torch):
    ours, theirs = make(edutorch, case), make(torch, case)
    for change in (lambda m: m, lambda m: m.eval(), lambda m: m.double()):
        assert described(change(ours)) == described(change(theirs))
    twin = copy.deepcopy(ours)
    assert described(twin) == described(ours)
    assert not {id(parameter) for parameter in twin.parameters()} & {
        id(parameter) for parameter in ours.parameters()
    }
    if "<lambda>" not in repr(case.args):
        assert described(pickle.loads(pickle.dumps(ours))) == described(ours)


@pytest.mark.parametrize("case", FIRST, ids=lambda case: case.name)
def test_a_state_goes_both_ways(case, torch):
    if case.name.startswith("Lazy"):
        ours, theirs = start(torch, case, "float32", "cpu")
    else:
        ours, theirs = make(edutorch, case), make(torch, case)
    fitting = "<All keys matched successfully>"
    state = {key: torch.tensor(value.numpy()) for key, value in ours.state_dict().items()}
    assert repr(theirs.load_state_dict(state)) == fitting
    other = make(edutorch, case)
    back = {key: ours_of(value, "cpu") for key, value in theirs.state_dict().items()}
    assert repr(other.load_state_dict(back)) == fitting
    for key, value in other.state_dict().items():
        assert value.tolist() == ours.state_dict()[key].tolist()


# Beginnings and relations ----------------------------------------------------------------------


def initial_values(library: Any, name: str, times: int) -> dict[str, np.ndarray]:
    """Return the initial values of the parameters of several instances of a module."""
    args, settings = STARTS[name]
    made = [
        make(library, Case(name, args, settings, None)).named_parameters() for _ in range(times)
    ]
    samples: dict[str, list[np.ndarray]] = {}
    for parameters in made:
        for key, value in parameters:
            samples.setdefault(key, []).append(value.detach().numpy().reshape(-1))
    return {key: np.concatenate(values) for key, values in samples.items()}


@pytest.mark.parametrize("name", STARTS)
def test_the_start_has_pytorchs_distribution(name, torch):
    edutorch.manual_seed(5)
    torch.manual_seed(5)
    result, expected = initial_values(edutorch, name, 12), initial_values(torch, name, 12)
    assert list(result) == list(expected)
    for key, wanted in expected.items():
        spread = wanted.max() - wanted.min()
        shares = np.linspace(0.05, 0.95, 7)
        difference = np.abs(np.quantile(result[key], shares) - np.quantile(wanted, shares))
        assert difference.max() <= spread * 4 / np.sqrt(wanted.size), key
        assert result[key].std() == pytest.approx(wanted.std(), rel=8 / np.sqrt(wanted.size)), key
        uniform = wanted.std() > 0.25 * spread
        assert not uniform or np.abs(result[key]).max() <= np.abs(wanted).max() * 1.05, key


def test_every_module_with_parameters_has_a_start():
    with_parameters = {
        case.name for case in EVERY if any(True for _ in make(edutorch, case).parameters())
    }
    assert with_parameters == set(STARTS) | set(WITHOUT_START)
    assert not set(STARTS) & set(WITHOUT_START)


OTHER_FAMILY = {
    name: "ours is a subclass of what it turns into, as PyTorch's other lazy modules are"
    for name in CASES
    if name.startswith(("LazyBatchNorm", "LazyInstanceNorm"))
}


def test_who_is_what_equals_pytorchs(torch):
    """isinstance(m, nn.Linear) has the same meaning."""
    names = sorted(modules_of(torch.nn))
    wrong = [
        (one, other)
        for one in names
        for other in names
        if issubclass(getattr(nn, one), getattr(nn, other))
        != issubclass(getattr(torch.nn, one), getattr(torch.nn, other))
        and one not in OTHER_FAMILY
    ]
    assert wrong == []
