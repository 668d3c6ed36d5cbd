"""Loaders: the suffix of a model's file leads to the function that reads it.

A loader of another format is one function:

    @register_loader(".npz")
    def load_npz(path: Path, config: Config) -> Served: ...

A `handler.py` beside the model is Python that its author chose. It runs only if the command line
names it, and only with the text that it had when the server started.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from ..errors import EdutorchError
from .errors import BadRequest, ModelError
from .protocol import expect, parse_json
from .served import DATATYPES, Served, TensorSpec, datatype_of, from_module
from .sizes import Sizes, sizes_of_program

CONFIG_FILE, HANDLER_FILE = "model.json", "handler.py"
MOST_CONFIG_BYTES = 1 << 20


class Config(NamedTuple):
    """The file `model.json`, which may stand beside a model: what the model's own file lacks.

    Args:
        inputs, outputs: names, datatypes and shapes, as in the metadata of the protocol.
        batching: False if requests must not share a call.
        free_size: a size to try the model with, for axes that take any.
    """

    inputs: tuple[TensorSpec, ...] = ()
    outputs: tuple[TensorSpec, ...] = ()
    batching: bool = True
    free_size: int = 1

    def settings(self) -> dict[str, Any]:
        """Return those that are settings of `Served`, too."""
        return {"batching": self.batching, "free_size": self.free_size}


Loader = Callable[[Path, Config], Served]

LOADERS: dict[str, Loader] = {}
"""By suffix, in the order in which a folder is searched."""


def register_loader(suffix: str) -> Callable[[Loader], Loader]:
    """Return a decorator: the function reads files called `model` with this suffix."""

    def register(loader: Loader) -> Loader:
        LOADERS[suffix] = loader
        return loader

    return register


def import_feature(module: str, name: str, file: Path) -> Any:
    """Return a function of another part of edutorch, which may be absent.

    Raises: ModelError: it is absent; nothing here reads such files.
    """
    try:
        return getattr(importlib.import_module(f"edutorch.{module}"), name)
    except (AttributeError, ModuleNotFoundError) as error:
        raise ModelError(
            "serve", f"{file.name} cannot be read: this edutorch has no `{module}.{name}`",
            hint="save the model in another format: " + ", ".join(f"model{key}" for key in LOADERS),
        ) from error  # fmt: skip


@register_loader(".onnx")
def load_onnx(path: Path, config: Config) -> Served:
    """Read an ONNX file: `edutorch.onnx.load` makes a GraphModule of it."""
    module = import_feature("onnx", "load", path)(path)
    return from_program(module, module, config, "onnx")


@register_loader(".edu")
def load_exported(path: Path, config: Config) -> Served:
    """Read a file of `torch.export.save`."""
    program = import_feature("export", "load", path)(path)
    sizes = sizes_of_program(program)
    return from_program(program, program.module(), config, "edutorch_export", sizes)


@register_loader(".pt")
def load_script(path: Path, config: Config) -> Served:
    """Read a TorchScript archive. It has no shapes: `model.json` has."""
    module = import_feature("jit", "load", path)(path)
    if not config.inputs:
        raise ModelError(
            "serve", f"{path.name}: TorchScript does not say which shapes it takes",
            hint=f"write {CONFIG_FILE} beside it: "
            '{"inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 64]}]}',
        )  # fmt: skip
    return from_program(module, module, config, "torchscript")


def from_program(
    program: Any, module: Any, config: Config, platform: str, sizes: Sizes | None = None
) -> Served:
    """Make a model to serve of a loaded program.

    Its inputs and outputs are those of `model.json`, or of the program itself.

    Args:
        sizes: the sizes that it takes, if it knows them.
    """
    inputs = config.inputs or inputs_of(program)
    if not inputs:
        raise ModelError(
            "serve", "the file does not say which inputs it takes",
            hint=f"write {CONFIG_FILE} beside it, with `inputs`",
        )  # fmt: skip
    names = getattr(program, "output_names", ())
    return from_module(
        module, inputs, config.outputs or outputs_of(program), platform, output_names=names,
        sizes=sizes,
        **config.settings(),
    )  # fmt: skip


def inputs_of(program: Any) -> tuple[TensorSpec, ...]:
    """Return the inputs of an exported program, or of a model that `onnx.load` brought in.

    Raises: ModelError: one is no tensor, or its dtype or rank is unknown.
    """
    entries = [(node.name, node.meta) for node in getattr(program, "input_nodes", list)()]
    specs = [(name, meta.get("dtype"), meta.get("shape")) for name, meta in entries]
    specs += [(spec.name, spec.dtype, spec.shape) for spec in getattr(program, "inputs", ())]
    for name, dtype, shape in specs:
        if dtype is None or shape is None:
            raise ModelError(
                "serve", f"the file does not say which shape and dtype input {name!r} has",
                hint=f"write {CONFIG_FILE} beside it, with `inputs`",
            )  # fmt: skip
    return tuple(make_spec(*entry) for entry in specs)


def outputs_of(program: Any) -> tuple[TensorSpec, ...]:
    """Return the outputs of an exported program; none of others, which a first call shows."""
    signature = getattr(program, "graph_signature", None)
    if signature is None:
        return ()
    metas = {node.name: node.meta for node in program.graph.nodes}
    return tuple(
        make_spec(f"output{index}", metas[name]["dtype"], metas[name]["shape"])
        for index, name in enumerate(signature.user_outputs)
        if name in metas  # another is a constant
    )


def make_spec(name: str, dtype: Any, shape: Iterable[Any]) -> TensorSpec:
    """Return the description of an input: a size that is no integer, or negative, may be any."""
    sizes = tuple(size if type(size) is int and size >= 0 else -1 for size in shape)
    return TensorSpec(name, dtype if dtype in DATATYPES else datatype_of(dtype), sizes)


# model.json --------------------------------------------------------------------------


def read_config(folders: Sequence[Path]) -> Config:
    """Read the first `model.json` of some folders; without one everything has its default.

    Raises: ModelError: it is malformed, or has an unknown key.
    """
    path = next(
        (folder / CONFIG_FILE for folder in folders if (folder / CONFIG_FILE).is_file()), None
    )
    if path is None:
        return Config()
    try:
        with path.open("rb") as file:
            entries = expect(parse_json(file.read(MOST_CONFIG_BYTES)), dict, "the file")
        unknown = sorted(entries.keys() - set(Config._fields))
        if unknown:
            raise BadRequest(f"unknown key {unknown[0]!r}; known: {', '.join(Config._fields)}")
        return Config(
            read_specs(entries, "inputs"),
            read_specs(entries, "outputs"),
            entries.get("batching", True) is True,
            expect(entries.get("free_size", 1), int, "`free_size`"),
        )
    except BadRequest as error:
        raise ModelError("serve", f"{CONFIG_FILE}: {error.message}") from error


def read_specs(entries: Mapping[str, Any], key: str) -> tuple[TensorSpec, ...]:
    """Read a list of inputs or outputs."""
    specs = []
    for entry in expect(entries.get(key, []), list, f"`{key}`"):
        expect(entry, dict, f"an entry of `{key}`")
        name = expect(entry.get("name"), str, f"`name` in `{key}`")
        datatype = entry.get("datatype")
        if datatype not in DATATYPES:
            raise BadRequest(
                f"{name!r}: datatype is {datatype!r}, not one of {', '.join(DATATYPES)}"
            )
        shape = expect(entry.get("shape"), list, f"`shape` of {name!r}")
        sizes = tuple(expect(size, int, f"a size of {name!r}") for size in shape)
        if any(size < -1 for size in sizes):
            raise BadRequest(f"{name!r}: shape {list(sizes)} has a negative size other than -1")
        specs.append(TensorSpec(name, datatype, sizes))
    if len({spec.name for spec in specs}) < len(specs):
        raise BadRequest(f"`{key}` has a name twice")
    return tuple(specs)


# handler.py --------------------------------------------------------------------------


class TrustedHandlers:
    """The handlers that may run, with the text that they had when the server started.

    A file that is changed later, by whoever may write to the folder, is not trusted any more.
    """

    def __init__(self, paths: Iterable[Path]) -> None:
        """Read the files.

        Raises: ModelError: one does not exist.
        """
        self.texts: dict[Path, bytes] = {}
        for path in paths:
            try:
                self.texts[path.resolve()] = path.read_bytes()
            except OSError as error:
                raise ModelError("serve", f"--trust-handler {path}: {error.strerror}") from error

    def read(self, path: Path) -> bytes | None:
        """Return the text of a handler, or None if it was not named.

        Raises: ModelError: it has changed since.
        """
        text = self.texts.get(path.resolve())
        if text is not None and path.read_bytes() != text:
            raise ModelError(
                "serve", f"{path.name} has changed since the server started, and is not run",
                hint="read it, and restart the server",
            )  # fmt: skip
        return text


def load_handler(path: Path, text: bytes, folder: Path, config: Config) -> Served:
    """Run a trusted handler.

    Its function `load(folder)` returns a `Served`, or a module; then `INPUTS`, or `model.json`, say
    what that takes: `INPUTS = [("x", "FP32", (-1, 64))]`. `preprocess(body, content_type)` and
    `postprocess(outputs)` are optional, for `/predictions`.

    Raises: ModelError: it has no `load`.
    """
    module = ModuleType(f"edutorch_handler_{abs(hash(path.resolve()))}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module  # dataclasses ask for it
    exec(compile(text, path, "exec"), module.__dict__)
    if not callable(getattr(module, "load", None)):
        raise ModelError("serve", f"{path.name} has no function `load(folder)`")
    loaded = module.load(folder)
    if isinstance(loaded, Served):
        return loaded
    inputs = config.inputs or tuple(make_spec(*entry) for entry in getattr(module, "INPUTS", ()))
    outputs = config.outputs or tuple(make_spec(*entry) for entry in getattr(module, "OUTPUTS", ()))
    if not inputs:
        raise ModelError(
            "serve", f"{path.name} does not say which inputs the model takes",
            hint='INPUTS = [("x", "FP32", (-1, 64))]',
        )  # fmt: skip
    functions = {name: getattr(module, name, None) for name in ("preprocess", "postprocess")}
    return from_module(loaded, inputs, outputs, "edutorch", **functions, **config.settings())


# A folder ----------------------------------------------------------------------------


def load_folder(folder: Path, trusted: TrustedHandlers) -> Served:
    """Load the model of a version's folder.

    Raises: ModelError: there is none, or it cannot be loaded.
    """
    folders = (folder, folder.parent)
    config = read_config(folders)
    handlers = [path for parent in folders if (path := parent / HANDLER_FILE).is_file()]
    for path in handlers:
        text = trusted.read(path)
        if text is not None:
            return load_handler(path, text, folder, config)
    hint = f"--trust-handler {handlers[0]} runs the handler beside it" if handlers else None
    for suffix, loader in LOADERS.items():
        if (path := folder / f"model{suffix}").is_file():
            return load_file(loader, path, config, hint)
    names = ", ".join(f"model{suffix}" for suffix in LOADERS)
    raise ModelError("serve", f"there is no model in {folder.name}/", {"looked for": names}, hint)


def load_file(loader: Loader, path: Path, config: Config, hint: str | None) -> Served:
    """Call a loader; its error mentions a handler that is there and was not run."""
    try:
        return loader(path, config)
    except EdutorchError as error:
        raise ModelError("serve", f"{path.name}: {error}", hint=hint) from error
