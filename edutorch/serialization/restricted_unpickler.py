"""A restricted unpickler: an interpreter for pickles that can only build data.

A pickle is a program for a stack machine. Python's own unpickler imports and calls whatever the
program names, so loading a file can run any code. This one supports what plain data needs. A
global stands for its entry in `allowed_globals.py`: nothing is imported, no attribute is looked
up, and only functions written for this purpose are called. An unknown global becomes a
`RefusedGlobal`, so that all of them can be listed at the end.

`pickletools` decodes the opcodes; it never reads beyond the data, whatever sizes they claim.
"""

from __future__ import annotations

import io
import pickletools
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import EdutorchError
from . import safe_classes
from .allowed_globals import (
    AllowedGlobal,
    RefusedGlobal,
    SafeGlobal,
    check_key,
    set_array_state,
    set_dtype_state,
    set_state,
)
from .safe_classes import damaged_error

MAX_DEPTH = 1000  # of nested lists
COPIES_PER_BYTE = 16  # by the memo a few bytes could copy a long list again and again
MAPPINGS = (dict, OrderedDict, defaultdict, Counter)


class RestrictedUnpickler:
    """Runs one pickle.

    Args:
        find: resolves a global, given its module and name.
        persistent: resolves a persistent id: a storage, which is stored outside the pickle.
        name: the file name, for errors.
    """

    def __init__(
        self, find: Callable[[str, str], Any], persistent: Callable[[Any], Any], name: str
    ) -> None:
        self.find, self.persistent, self.name = find, persistent, name
        self.stack: list[Any] = []
        self.marks: list[list[Any]] = []
        self.memo: dict[int, Any] = {}
        self.refused: dict[str, RefusedGlobal] = {}
        self.left = 0  # how many items and characters calls may still copy

    def run(self, program: io.BytesIO) -> Any:
        """Return what the pickle at the current position of `program` builds.

        Raises: CheckpointError: it is not a pickle of data.
        """
        self.left = 1000 + COPIES_PER_BYTE * len(program.getbuffer())
        try:
            for opcode, arg, _ in pickletools.genops(program):
                if opcode.name in PUSHES_ARGUMENT:
                    self.stack.append(arg)
                elif opcode.name in CONSTANTS:
                    self.stack.append(CONSTANTS[opcode.name]())
                elif opcode.name == "STOP":
                    break
                elif opcode.name not in ("PROTO", "FRAME"):
                    step = OPCODES.get(opcode.name)
                    if step is None:
                        raise ValueError(f"it uses the pickle operation {opcode.name}")
                    step(self, arg)
            (result,) = self.stack
            if self.marks:
                raise ValueError("it ends inside a list")
            check_depth(result)
        except EdutorchError:
            raise
        except (
            ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError, TypeError,
            ValueError,
        ) as error:  # fmt: skip
            if not self.refused:
                raise self.failure(error) from error
            result = None
        return result

    def failure(self, error: Exception) -> EdutorchError:
        """Return the exception to raise for a pickle that cannot be run to its end."""
        return damaged_error(self.name, f"not a pickle of data ({error})")

    # The stack ----------------------------------------------------------------------------

    def mark(self, arg: object) -> None:
        self.marks.append(self.stack)
        self.stack = []

    def take_to_mark(self) -> list[Any]:
        """Pop and return everything above the last mark."""
        above, self.stack = self.stack, self.marks.pop()
        return above

    def pop(self, arg: object) -> None:
        if self.stack:
            self.stack.pop()
        else:
            self.take_to_mark()

    def pop_mark(self, arg: object) -> None:
        self.take_to_mark()

    def memoize(self, arg: object) -> None:
        self.memo[len(self.memo)] = self.stack[-1]

    def put(self, arg: int) -> None:
        self.memo[int(arg)] = self.stack[-1]

    def get(self, arg: int) -> None:
        self.stack.append(self.memo[int(arg)])

    # Containers -----------------------------------------------------------------------------

    def make_tuple(self, arg: object) -> None:
        items = self.take_to_mark()
        self.stack.append(tuple(items))

    def make_list(self, arg: object) -> None:
        items = self.take_to_mark()
        self.stack.append(items)

    def make_dict(self, arg: object) -> None:
        items = self.take_to_mark()
        self.stack.append({})
        self.set_items(items)

    def make_frozenset(self, arg: object) -> None:
        items = self.take_to_mark()
        self.stack.append(frozenset(map(check_key, items)))

    def take(self, count: int) -> None:
        """Make a tuple of the topmost values."""
        if len(self.stack) < count:
            raise ValueError("it takes more from its stack than there is")
        self.stack[-count:] = [tuple(self.stack[-count:])]

    def append(self, arg: object) -> None:
        self.extend([self.stack.pop()])

    def appends(self, arg: object) -> None:
        self.extend(self.take_to_mark())

    def extend(self, values: list[Any]) -> None:
        target = self.stack[-1]
        if type(target) in (list, deque):
            target.extend(values)
        elif not isinstance(target, RefusedGlobal):
            raise TypeError(f"it appends to a {type(target).__name__}")

    def add_items(self, arg: object) -> None:
        values = self.take_to_mark()
        target = self.stack[-1]
        if type(target) is set:
            target.update(map(check_key, values))
        elif not isinstance(target, RefusedGlobal):
            raise TypeError(f"it adds to a {type(target).__name__}")

    def set_item(self, arg: object) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        self.set_items([key, value])

    def set_items_to_mark(self, arg: object) -> None:
        self.set_items(self.take_to_mark())

    def set_items(self, items: list[Any]) -> None:
        if len(items) % 2:
            raise ValueError("a key of a dict has no value")
        target = self.stack[-1]
        if type(target) in MAPPINGS:
            for key, value in zip(items[::2], items[1::2], strict=True):
                target[check_key(key)] = value
        elif not isinstance(target, RefusedGlobal):
            raise TypeError(f"it sets items of a {type(target).__name__}")

    # Globals and calls ------------------------------------------------------------------------

    def push_global(self, arg: object) -> None:
        self.push_resolved(*str(arg).split(" ", 1))

    def push_global_from_stack(self, arg: object) -> None:
        name, module = self.stack.pop(), self.stack.pop()
        if type(name) is not str or type(module) is not str:
            raise TypeError("the name of a class is not a text")
        self.push_resolved(module, name)

    def push_resolved(self, module: str, name: str) -> None:
        value = self.find(module, name)
        if isinstance(value, RefusedGlobal):
            value = self.refused.setdefault(value.name, value)
        self.stack.append(value)

    def call(self, arg: object) -> None:
        args, function = self.stack.pop(), self.stack.pop()
        if type(args) is not tuple:
            raise TypeError("the arguments of a call are not a tuple")
        if isinstance(function, AllowedGlobal):
            self.charge_copies(args)
            self.stack.append(function.make(*args))
        elif isinstance(function, SafeGlobal):
            self.stack.append(function.value(*args))
        elif isinstance(function, RefusedGlobal):
            self.stack.append(function)
        else:
            raise TypeError(f"it calls a {type(function).__name__}")

    def charge_copies(self, args: tuple[object, ...]) -> None:
        """Limit what calls copy: a small file must not build arbitrarily large objects."""
        for argument in args:
            if isinstance(
                argument, str | bytes | bytearray | dict | list | tuple | set | frozenset
            ):
                self.left -= len(argument)
        if self.left < 0:
            raise ValueError("it copies its own contents over and over")

    def new_object(self, arg: object) -> None:
        args, cls = self.stack.pop(), self.stack.pop()
        if type(args) is tuple and isinstance(cls, SafeGlobal):
            self.stack.append(cls.value.__new__(cls.value, *args))
        else:
            self.stack += [cls, args]
            self.call(arg)

    def new_object_with_kwargs(self, arg: object) -> None:
        named, args, cls = self.stack.pop(), self.stack.pop(), self.stack.pop()
        if isinstance(cls, RefusedGlobal):
            self.stack.append(cls)
        elif isinstance(cls, SafeGlobal) and type(args) is tuple and type(named) is dict:
            self.stack.append(cls.value.__new__(cls.value, *args, **named))
        else:
            raise TypeError("it makes an object with named arguments")

    def build(self, arg: object) -> None:
        """Set the state of an object."""
        state = self.stack.pop()
        target = self.stack[-1]
        if isinstance(target, RefusedGlobal):
            return
        if type(target) is np.ndarray:
            self.charge_copies(state)
            set_array_state(target, state)
        elif isinstance(target, np.dtype):
            set_dtype_state(target, state)
        elif type(target) is OrderedDict and type(state) is dict and set(state) <= {"_metadata"}:
            vars(target).update(state)
        elif safe_classes.has_class(type(target)):
            set_state(target, state)
        else:
            raise TypeError(f"it sets the state of a {type(target).__name__}")

    def load_persistent(self, arg: object) -> None:
        self.stack.append(self.persistent(self.stack.pop()))


PUSHES_ARGUMENT = {
    "INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT",
    "STRING", "BINSTRING", "SHORT_BINSTRING", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8",
    "BYTEARRAY8", "UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8",
}  # fmt: skip
CONSTANTS: dict[str, Callable[[], Any]] = {
    "NONE": lambda: None, "NEWTRUE": lambda: True, "NEWFALSE": lambda: False,
    "EMPTY_TUPLE": tuple, "EMPTY_LIST": list, "EMPTY_DICT": dict, "EMPTY_SET": set,
}  # fmt: skip
Machine = RestrictedUnpickler
OPCODES: dict[str, Callable[[RestrictedUnpickler, Any], None]] = {
    "MARK": Machine.mark, "POP": Machine.pop, "POP_MARK": Machine.pop_mark,
    "MEMOIZE": Machine.memoize,
    "PUT": Machine.put, "BINPUT": Machine.put, "LONG_BINPUT": Machine.put,
    "GET": Machine.get, "BINGET": Machine.get, "LONG_BINGET": Machine.get,
    "TUPLE": Machine.make_tuple, "TUPLE1": lambda self, arg: self.take(1),
    "TUPLE2": lambda self, arg: self.take(2), "TUPLE3": lambda self, arg: self.take(3),
    "LIST": Machine.make_list, "DICT": Machine.make_dict, "FROZENSET": Machine.make_frozenset,
    "APPEND": Machine.append, "APPENDS": Machine.appends,
    "SETITEM": Machine.set_item, "SETITEMS": Machine.set_items_to_mark,
    "GLOBAL": Machine.push_global, "STACK_GLOBAL": Machine.push_global_from_stack,
    "BINPERSID": Machine.load_persistent,
    # Looked up in the object: the unpickler of whole objects overrides these.
    "ADDITEMS": lambda self, arg: self.add_items(arg),
    "REDUCE": lambda self, arg: self.call(arg),
    "NEWOBJ": lambda self, arg: self.new_object(arg),
    "NEWOBJ_EX": lambda self, arg: self.new_object_with_kwargs(arg),
    "BUILD": lambda self, arg: self.build(arg),
}  # fmt: skip


def check_depth(result: object) -> None:
    """Raise ValueError for data so deep that Python could not print or compare it."""
    level, seen = [result], set()
    for _ in range(MAX_DEPTH):
        inner: list[Any] = []
        for value in level:
            if isinstance(value, dict | list | tuple | set | frozenset | deque):
                if id(value) in seen:
                    continue
                seen.add(id(value))
                inner += value.values() if isinstance(value, dict) else value
        if not inner:
            return
        level = inner
    raise ValueError(f"its lists are nested more than {MAX_DEPTH} levels deep")
