"""An interpreter for pickles that only knows how to build data.

A pickle is a program for a small machine with a stack. Python's own machine imports whatever
the program names and calls it, so loading a file can do anything. This one does what plain
data needs. A name stands for what `allowed_globals.py` has under it, nothing is imported,
no attribute is looked up, and only functions written for this are called. A name that is not known
becomes a `Refused`, so that all of them can be listed at the end.

`pickletools` takes the program apart; it reads no more than there is, whatever sizes it claims.
"""

from __future__ import annotations

import io
import pickletools
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import EdutorchError
from . import safe_globals
from .allowed_globals import (
    Known,
    ListedClass,
    Refused,
    checked_key,
    set_array,
    set_state,
    set_type,
)
from .errors import damaged

DEEPEST = 1000  # levels of lists in lists
COPIES = 16
MAPPINGS = (dict, OrderedDict, defaultdict, Counter)


class Interpreter:
    """Runs one pickle.

    Args:
        find: what stands for a module and a name in it.
        persistent: what stands for an object that lies outside the pickle: a storage.
        name: the file's, for errors.
    """

    def __init__(
        self, find: Callable[[str, str], Any], persistent: Callable[[Any], Any], name: str
    ) -> None:
        self.find, self.persistent, self.name = find, persistent, name
        self.stack: list[Any] = []
        self.marks: list[list[Any]] = []
        self.memo: dict[int, Any] = {}
        self.refused: dict[str, Refused] = {}
        self.left = 0  # numbers and letters that may still be copied

    def run(self, program: io.BytesIO) -> Any:
        """Return what the pickle at the present position of `program` builds.

        Raises: CheckpointError: it is not a pickle of data.
        """
        self.left = 1000 + COPIES * len(program.getbuffer())
        try:
            for opcode, arg, _ in pickletools.genops(program):
                if opcode.name in PUSHES_ARGUMENT:
                    self.stack.append(arg)
                elif opcode.name in MAKES:
                    self.stack.append(MAKES[opcode.name]())
                elif opcode.name == "STOP":
                    break
                elif opcode.name not in ("PROTO", "FRAME"):
                    step = STEPS.get(opcode.name)
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
        """Return what is raised for a pickle that cannot be run to its end."""
        return damaged(self.name, f"not a pickle of data ({error})")

    # The stack ----------------------------------------------------------------------------

    def mark(self, arg: Any) -> None:
        self.marks.append(self.stack)
        self.stack = []

    def to_mark(self) -> list[Any]:
        """Return everything above the last mark, and go back to what was below."""
        above, self.stack = self.stack, self.marks.pop()
        return above

    def pop(self, arg: Any) -> None:
        if self.stack:
            self.stack.pop()
        else:
            self.to_mark()

    def pop_mark(self, arg: Any) -> None:
        self.to_mark()

    def memoize(self, arg: Any) -> None:
        self.memo[len(self.memo)] = self.stack[-1]

    def put(self, arg: Any) -> None:
        self.memo[int(arg)] = self.stack[-1]

    def get(self, arg: Any) -> None:
        self.stack.append(self.memo[int(arg)])

    # Containers -----------------------------------------------------------------------------

    def make_tuple(self, arg: Any) -> None:
        items = self.to_mark()
        self.stack.append(tuple(items))

    def make_list(self, arg: Any) -> None:
        items = self.to_mark()
        self.stack.append(items)

    def make_dict(self, arg: Any) -> None:
        items = self.to_mark()
        self.stack.append({})
        self.set_items(items)

    def make_frozenset(self, arg: Any) -> None:
        items = self.to_mark()
        self.stack.append(frozenset(map(checked_key, items)))

    def take(self, count: int) -> None:
        """Make a tuple of the uppermost values."""
        if len(self.stack) < count:
            raise ValueError("it takes more from its stack than there is")
        self.stack[-count:] = [tuple(self.stack[-count:])]

    def append(self, arg: Any) -> None:
        self.extend([self.stack.pop()])

    def appends(self, arg: Any) -> None:
        self.extend(self.to_mark())

    def extend(self, values: list[Any]) -> None:
        target = self.stack[-1]
        if type(target) in (list, deque):
            target.extend(values)
        elif not isinstance(target, Refused):
            raise TypeError(f"it appends to a {type(target).__name__}")

    def add_items(self, arg: Any) -> None:
        values = self.to_mark()
        target = self.stack[-1]
        if type(target) is set:
            target.update(map(checked_key, values))
        elif not isinstance(target, Refused):
            raise TypeError(f"it adds to a {type(target).__name__}")

    def set_item(self, arg: Any) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        self.set_items([key, value])

    def set_items_to_mark(self, arg: Any) -> None:
        self.set_items(self.to_mark())

    def set_items(self, items: list[Any]) -> None:
        if len(items) % 2:
            raise ValueError("a key of a dict has no value")
        target = self.stack[-1]
        if type(target) in MAPPINGS:
            for key, value in zip(items[::2], items[1::2], strict=True):
                target[checked_key(key)] = value
        elif not isinstance(target, Refused):
            raise TypeError(f"it sets items of a {type(target).__name__}")

    # Names and calls --------------------------------------------------------------------------

    def named(self, arg: Any) -> None:
        self.push_named(*str(arg).split(" ", 1))

    def named_on_stack(self, arg: Any) -> None:
        name, module = self.stack.pop(), self.stack.pop()
        if type(name) is not str or type(module) is not str:
            raise TypeError("the name of a class is not a text")
        self.push_named(module, name)

    def push_named(self, module: str, name: str) -> None:
        found = self.find(module, name)
        if isinstance(found, Refused):
            found = self.refused.setdefault(found.name, found)
        self.stack.append(found)

    def call(self, arg: Any) -> None:
        args, function = self.stack.pop(), self.stack.pop()
        if type(args) is not tuple:
            raise TypeError("the arguments of a call are not a tuple")
        if isinstance(function, Known):
            self.spend(args)
            self.stack.append(function.make(*args))
        elif isinstance(function, ListedClass):
            self.stack.append(function.value(*args))
        elif isinstance(function, Refused):
            self.stack.append(function)
        else:
            raise TypeError(f"it calls a {type(function).__name__}")

    def spend(self, args: Any) -> None:
        """Count what calls may copy: far more than there is in the file is no honest file."""
        for argument in args:
            if isinstance(
                argument, str | bytes | bytearray | dict | list | tuple | set | frozenset
            ):
                self.left -= len(argument)
        if self.left < 0:
            raise ValueError("it copies its own contents over and over")

    def new(self, arg: Any) -> None:
        args, kind = self.stack.pop(), self.stack.pop()
        if type(args) is tuple and isinstance(kind, ListedClass):
            self.stack.append(kind.value.__new__(kind.value, *args))
        else:
            self.stack += [kind, args]
            self.call(arg)

    def new_with_names(self, arg: Any) -> None:
        named, args, kind = self.stack.pop(), self.stack.pop(), self.stack.pop()
        if isinstance(kind, Refused):
            self.stack.append(kind)
        elif isinstance(kind, ListedClass) and type(args) is tuple and type(named) is dict:
            self.stack.append(kind.value.__new__(kind.value, *args, **named))
        else:
            raise TypeError("it makes an object with named arguments")

    def build(self, arg: Any) -> None:
        """Give an object its state."""
        state = self.stack.pop()
        target = self.stack[-1]
        if isinstance(target, Refused):
            return
        if type(target) is np.ndarray:
            self.spend(state)
            set_array(target, state)
        elif isinstance(target, np.dtype):
            set_type(target, state)
        elif type(target) is OrderedDict and type(state) is dict and set(state) <= {"_metadata"}:
            vars(target).update(state)
        elif safe_globals.has_class(type(target)):
            set_state(target, state)
        else:
            raise TypeError(f"it sets the state of a {type(target).__name__}")

    def outside(self, arg: Any) -> None:
        self.stack.append(self.persistent(self.stack.pop()))


PUSHES_ARGUMENT = {
    "INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT",
    "STRING", "BINSTRING", "SHORT_BINSTRING", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8",
    "BYTEARRAY8", "UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8",
}  # fmt: skip
MAKES: dict[str, Callable[[], Any]] = {
    "NONE": lambda: None, "NEWTRUE": lambda: True, "NEWFALSE": lambda: False,
    "EMPTY_TUPLE": tuple, "EMPTY_LIST": list, "EMPTY_DICT": dict, "EMPTY_SET": set,
}  # fmt: skip
STEPS: dict[str, Callable[[Interpreter, Any], None]] = {
    "MARK": Interpreter.mark, "POP": Interpreter.pop, "POP_MARK": Interpreter.pop_mark,
    "MEMOIZE": Interpreter.memoize, "PUT": Interpreter.put, "BINPUT": Interpreter.put,
    "LONG_BINPUT": Interpreter.put, "GET": Interpreter.get, "BINGET": Interpreter.get,
    "LONG_BINGET": Interpreter.get, "TUPLE": Interpreter.make_tuple,
    "TUPLE1": lambda self, arg: self.take(1), "TUPLE2": lambda self, arg: self.take(2),
    "TUPLE3": lambda self, arg: self.take(3), "LIST": Interpreter.make_list,
    "DICT": Interpreter.make_dict, "FROZENSET": Interpreter.make_frozenset,
    "APPEND": Interpreter.append, "APPENDS": Interpreter.appends,
    "ADDITEMS": lambda self, arg: self.add_items(arg), "SETITEM": Interpreter.set_item,
    "SETITEMS": Interpreter.set_items_to_mark, "GLOBAL": Interpreter.named,
    "STACK_GLOBAL": Interpreter.named_on_stack, "REDUCE": lambda self, arg: self.call(arg),
    "NEWOBJ": lambda self, arg: self.new(arg),
    "NEWOBJ_EX": lambda self, arg: self.new_with_names(arg),
    "BUILD": lambda self, arg: self.build(arg), "BINPERSID": Interpreter.outside,
}  # fmt: skip


def check_depth(result: Any) -> None:
    """Raise ValueError for data so deep that Python could not print or compare it."""
    level, seen = [result], set()
    for _ in range(DEEPEST):
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
    raise ValueError(f"its lists are nested more than {DEEPEST} levels deep")
