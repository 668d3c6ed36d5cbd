"""Finds graphs that are no longer needed, and what keeps them alive.

While a loop runs, only the number of old graphs is watched. Who keeps one is a question to the
garbage collector, which visits every object there is: it is only asked on request.
"""

from __future__ import annotations

import functools
import gc
import itertools
import re
import sys
import time
import weakref
from collections import deque
from collections.abc import Iterator
from types import CellType, FrameType, MethodType, ModuleType
from typing import Any, NamedTuple

from ...core.autograd.graph import Node
from ...core.autograd.versions import clock
from ...core.tensor import LEAF, Tensor
from ...events import OpApplied
from ...profiler.tree import bytes_text
from ..graph.graph_reader import line_of, saved_bytes
from ..graph.names import Names, variables
from .messages import Finding, finding

OLD_GRAPHS = 8
"""How many losses of earlier steps may be alive before there is a finding."""

GROWTH = 2
"""How many times in a row the graph must have become longer."""

MOST_WALKED = 20_000
MOST_ASKED = 200
MOST_SECONDS = 3.0
"""The search for holders ends after this time: in a large process each query takes 0.1 s."""

OUTPUT = re.compile(r"^Out\[\d+\]")
DEPTH = 7
"""How many containers deep a holder may be."""


class GraphGrowth:
    """Watches, over the steps, how many old graphs are alive."""

    event_types = (OpApplied,)
    work_kinds = ()

    def __init__(self, names: Names) -> None:
        self.names = names
        self._roots: deque[weakref.ref[Node]] = deque(maxlen=64)  # of the losses, step by step
        self._last: weakref.ref[Node] | None = None  # the last scalar of this step
        self._newest = 0  # when the step before ended
        self._crossing: weakref.ref[Node] | None = None
        self._crossed: weakref.ref[Node] | None = None
        self._sizes: list[int] = []
        self._line = ""  # that made the loss of the last full sample

    def take(self, event: Any) -> None:
        """Handle an event."""
        if type(event) is not OpApplied or event.node is None:
            return
        node = event.node
        output = event.output[0] if isinstance(event.output, tuple) else event.output
        if output._array.size == 1:
            self._last = weakref.ref(node)
        if self._newest and self._crossing is None:
            for edge in node.edges:
                if isinstance(edge, Node) and edge._order <= self._newest:
                    self._crossing, self._crossed = weakref.ref(node), weakref.ref(edge)
                    return

    def record_root(self, node: Node | None) -> None:
        """Record a node on which backward is about to run, in a step that is sampled fast."""
        if isinstance(node, Node):
            self._last = weakref.ref(node)

    def step_ended(self, full: bool) -> list[Finding]:
        """Return what keeps old graphs, after a sampled step.

        Args:
            full: it was sampled in full.
        """
        before, self._newest = self._newest, clock()
        if not before:
            self.skip_step()
            return []
        findings = self._check_growth() if full else []
        if self._last is not None:
            self._roots.append(self._last)
        alive = [node for node in map(dereference, list(self._roots)[:-1]) if node is not None]
        name, in_list = largest_graph_list(self.names.frame, before)
        if max(len(alive), len(in_list)) >= OLD_GRAPHS and not findings and not self._is_growing:
            findings.append(kept_finding(max(alive, in_list, key=len), name, self._line))
        self._crossing = self._crossed = self._last = None
        return findings

    @property
    def _is_growing(self) -> bool:
        """Whether the graph has just become longer than the time before."""
        return len(self._sizes) > 1 and self._sizes[-1] > self._sizes[-2]

    def skip_step(self) -> None:
        """Handle the end of a step that was not sampled."""
        self._newest = clock()
        self._crossing = self._crossed = self._last = None

    def _check_growth(self) -> list[Finding]:
        """Check whether the graph reaches into an earlier step, and further than the last time."""
        last = dereference(self._last)
        if last is not None:
            self._line = line_of(last)
        crossing, crossed = dereference(self._crossing), dereference(self._crossed)
        if crossing is None or crossed is None:
            self._sizes = []
            return []
        self._sizes = [*self._sizes[-GROWTH:], graph_size(crossed)[0]]
        pairs = itertools.pairwise(self._sizes)
        if len(self._sizes) <= GROWTH or not all(a < b for a, b in pairs):
            return []
        return [finding("history", line=line_of(crossing), order=crossing._order,
                        op=crossing.op.public_name, count=f"{self._sizes[-1]:,}",
                        subject="history")]  # fmt: skip


def kept_finding(alive: list[Node], name: str, line: str) -> Finding:
    """Report how much is kept and, if known, in which variable; `line` made the last graph."""
    size = size_text([graph_size(node) for node in alive])
    advice = ADVICE["list"] if name else "viz.trouble() looks for who keeps them."
    return finding("kept-graphs", count=len(alive), graphs="graphs", size=size, subject="kept",
                   holder=f"`{name}`" if name else "something", advice=advice,
                   line=line)  # fmt: skip


def size_text(sizes: list[tuple[int, int]], more: int = 0) -> str:
    """Return the total size of graphs: "56 ops", and the bytes they keep, if there are any."""
    ops, kept = sum(ops for ops, _ in sizes), sum(nbytes for _, nbytes in sizes) + more
    text = f"{ops:,} op{'s' * (ops != 1)}"
    return f"{text} and {bytes_text(kept)}" if kept else text


def dereference(reference: weakref.ref[Node] | None) -> Node | None:
    return None if reference is None else reference()


def graph_size(node: Any) -> tuple[int, int]:
    """Return how many ops are behind a node, itself included, and the bytes they keep."""
    seen, stack, size = set(), [node], 0
    while stack and len(seen) < MOST_WALKED:
        node = stack.pop()
        if node is None or not node._order or node in seen:
            continue
        seen.add(node)
        size += sum(bytes for _, bytes in saved_bytes(node))
        stack.extend(node.edges)
    return len(seen), size


def largest_graph_list(frame: FrameType | None, before: int) -> tuple[str, list[Node]]:
    """Return the variable that holds most graphs of earlier steps, in a list or similar.

    Args:
        before: when the last step ended; what is younger belongs to this one.
    """
    best: tuple[str, list[Node]] = "", []
    for name, value in variables(frame):
        if isinstance(value, list | tuple | dict | deque) and len(value) >= OLD_GRAPHS:
            items = list(value.values() if isinstance(value, dict) else value)[-64:]
            nodes = [item._node for item in items if isinstance(item, Tensor)
                     and isinstance(item._node, Node) and item._node._order < before]  # fmt: skip
            if len(nodes) > len(best[1]):
                best = name, nodes
    return best


LIBRARY_MODULES = {
    "edutorch", "IPython", "ipykernel", "traitlets", "asyncio", "tornado", "runpy", "threading",
    "pytest", "_pytest", "pluggy", "nbclient", "concurrent",
}  # fmt: skip
"""Modules whose functions run around the user's code."""


# Who keeps a tensor ---------------------------------------------------------------------------


ADVICE = {
    "list": "Keep numbers: losses.append(loss.item()), or loss.detach().",
    "variable": "Delete it when it is not needed any more: del {name}; or keep {name}.detach().",
    "attribute": "Keep {name}.detach() there, or set it to None after the step.",
    "Out": "IPython keeps what a cell shows: show three numbers, then %reset -f out releases it; "
    "a semicolon behind the last line shows nothing.",
    "_": "IPython keeps what the last three cells have shown; after %reset -f out, "
    "get_ipython().user_ns_hidden.pop({name!r}) releases it.",
    "traceback": "IPython keeps the variables of the last error: "
    "sys.last_value = sys.last_traceback = None releases them.",
    "frame": "An exception that is kept holds the variables of the functions that it left: delete "
    "it; or traceback.clear_frames(error.__traceback__) releases them.",
    "closure": "A function keeps it: delete the function, or let it keep {name}.detach().",
    "unknown": "import gc; gc.collect() frees what only holds itself.",
}


def graph_tensors() -> list[Tensor]:
    """Return all tensors with a graph, from the garbage collector."""
    tensors = []
    for object_ in gc.get_objects():
        if issubclass(type(object_), Tensor):  # `isinstance` would call each object's `__class__`
            node = object_._node
            if node is not None and node is not LEAF:
                tensors.append(object_)
    return tensors


class Referrers:
    """Who holds what, from the garbage collector.

    For each query it visits all objects there are, which takes a while: so many are
    asked for at once, and each only once.

    Attributes:
        skip: ids of objects by which only the search itself holds something.
        end: when the search is to end, on the clock of `time.monotonic`.
    """

    def __init__(self, skip: set[int]) -> None:
        self._known: dict[int, list[Any]] = {}
        self._owners: dict[int, Any] = {}
        self.skip = skip | {id(self._known), id(self._owners)}
        self._running = {id(frame) for frame in running_frames()}
        self.end = time.monotonic() + MOST_SECONDS

    def is_late(self) -> bool:
        """Return True if the time of the search is over."""
        return time.monotonic() > self.end

    def find(self, things: list[Any], ours: set[int]) -> None:
        """Find out who holds these things.

        Args:
            ours: ids of more objects of the search, which hold them just now.
        """
        unknown = [thing for thing in things if id(thing) not in self._known]
        if not unknown:
            return
        for thing in unknown:
            self._known[id(thing)] = row = []
            self.skip.add(id(row))
        referrers = gc.get_referrers(*unknown)
        not_theirs = self.skip | ours | {id(things), id(unknown)}
        wanted = {id(thing) for thing in unknown}
        for holder in referrers:
            # The variables of running functions are read by `stack_variables`.
            if id(holder) not in not_theirs and id(holder) not in self._running:
                for key in wanted.intersection(map(id, gc.get_referents(holder))):
                    self._known[key].append(holder)

    def holders_of(self, thing: object) -> list[Any]:
        """Return who holds one of the things that were searched for."""
        return self._known[id(thing)]

    def owner(self, namespace: dict[Any, Any]) -> Any:
        """Return the object, or the class, whose attributes a dict holds."""
        if id(namespace) not in self._owners:
            self._owners[id(namespace)] = owner_of(namespace)
        return self._owners[id(namespace)]


def find_holders(tensor: Tensor, referrers: Referrers) -> list[tuple[str, str]]:
    """Return who keeps an object: (path, category), as ("losses[3]", "list")."""
    local = stack_variables()
    holders: dict[str, str] = {}
    seen = {id(tensor)} | referrers.skip
    level: list[tuple[Any, str]] = [(tensor, "")]
    for _ in range(DEPTH):
        upper: list[tuple[Any, str]] = []
        ours = {id(level), id(upper), id(local), id(holders), id(seen), id(sys._getframe())}
        for pair in level:
            ours.add(id(pair))
        referrers.find([thing for thing, _ in level], ours)
        for thing, path in level:
            for name, category in local.get(id(thing), ()):
                holders.setdefault(f"{name}{path}", category if not path else "list")
            for holder in referrers.holders_of(thing):
                if id(holder) in seen or id(holder) in ours:
                    continue
                if type(holder).__name__.endswith("iterator"):
                    continue
                seen.add(id(holder))
                climb(holder, thing, path, Climb(holders, upper, referrers))
        if not upper or referrers.is_late():
            break
        level = upper
    categories = set(holders.values())
    vague = {"unknown"} & categories if len(categories) > 1 else set()
    vague |= {"_"} if "Out" in categories else set()
    return [(path, category) for path, category in holders.items() if category not in vague]


class Climb(NamedTuple):
    """What a step up from a level adds to.

    Attributes:
        holders: the holders that have a name, and the category of each.
        upper: what holds the level, each with the path down from it.
        referrers: the referrers of all things.
    """

    holders: dict[str, str]
    upper: list[tuple[Any, str]]
    referrers: Referrers


def climb(holder: object, thing: object, path: str, step: Climb) -> None:
    """Go one step up from `thing`: add a name, or go on with what holds the holder."""
    if isinstance(holder, dict):
        key = next((key for key, value in list(holder.items()) if value is thing), None)
        if key is not None:
            climb_dict(holder, key, path, step)
    elif isinstance(holder, list | tuple | deque):
        index = next((at for at, item in enumerate(holder) if item is thing), None)
        if index is not None:
            step.upper.append((holder, f"[{index}]{path}"))
    elif isinstance(holder, FrameType):
        name = next((name for name, value in holder.f_locals.items() if value is thing), None)
        if name is not None:
            where = f"{name}{path} in {holder.f_code.co_name}() (of an error that is kept)"
            step.holders.setdefault(where, "frame")
    elif isinstance(holder, set | frozenset | CellType | MethodType | functools.partial):
        step.upper.append((holder, path))
    elif callable(holder) and hasattr(holder, "__closure__"):
        if str(holder.__module__).partition(".")[0] in LIBRARY_MODULES:
            return
        step.holders.setdefault(
            f"{getattr(holder, '__qualname__', 'a function')}(){path}", "closure"
        )
    elif not isinstance(holder, ModuleType):
        name = attribute_of(holder, thing)
        if name:
            note_attribute(holder, f".{name}{path}", step)
        elif not isinstance(holder, type):
            step.holders.setdefault(f"a {type(holder).__name__}", "unknown")
            step.upper.append((holder, path))


def climb_dict(holder: dict[Any, Any], key: object, path: str, step: Climb) -> None:
    """Go one step up from what a dict holds under `key`: it may hold variables, or attributes."""
    if is_of_ipython(key):
        note_output(str(key), path, step.holders)
    elif is_namespace(holder):
        name = str(key)
        category = "variable" if not path else "attribute" if path[0] == "." else "list"
        if name.strip("_").isdigit():
            name, category = f"Out[{name.strip('_')}]", "Out"
        if name in ("last_value", "last_traceback", "last_exc"):
            name, category = f"sys.{name}", "traceback"
        step.holders.setdefault(name + path, category)
    else:
        owner = (
            step.referrers.owner(holder) if isinstance(key, str) and key.isidentifier() else None
        )
        if owner is not None:
            note_attribute(owner, f".{key}{path}", step)
        else:
            step.upper.append((holder, f"[{key!r}]{path}"))


def note_attribute(owner: object, path: str, step: Climb) -> None:
    """Record that an object holds something: a class has a name, IPython's own are its `Out`."""
    if str(type(owner).__module__).partition(".")[0] in ("IPython", "ipykernel"):
        name = re.split(r"[.[]", path[1:])[0]
        note_output(name if is_of_ipython(name) else "Out", "", step.holders)
    elif isinstance(owner, type):
        step.holders.setdefault(f"{owner.__qualname__}{path}", "attribute")
    else:
        step.upper.append((owner, path))


def note_output(name: str, path: str, holders: dict[str, str]) -> None:
    """Record that IPython keeps an output of a cell; the last three as `_`, `__`, `___`.

    Those it keeps when all others were released.
    """
    is_last = not name.strip("_")
    holders.setdefault(f"{name if is_last else 'Out'}{path}", "_" if is_last else "Out")


def is_of_ipython(key: object) -> bool:
    """Return True if IPython keeps outputs of cells under this name: `Out`, `_`, `__`, `___`.

    It has them as variables, as attributes of its displayhook, and among its hidden variables.
    """
    return key in ("output_hist", "Out", "_oh") or (isinstance(key, str) and not key.strip("_"))


def is_namespace(holder: dict[Any, Any]) -> bool:
    """Return True if a dict holds the variables of a module, or of a notebook."""
    return ("__name__" in holder and "__builtins__" in holder) or any(
        getattr(module, "__dict__", None) is holder for module in list(sys.modules.values())
    )


def running_frames() -> Iterator[FrameType]:
    """Iterate over the frames of the functions that all threads are running."""
    for innermost in sys._current_frames().values():
        frame: FrameType | None = innermost
        while frame is not None:
            yield frame
            frame = frame.f_back


def owner_of(namespace: dict[Any, Any]) -> Any:
    """Return the object, or the class, whose attributes a dict holds."""
    for referrer in gc.get_referrers(namespace):
        if isinstance(referrer, type):
            if any(held is namespace for held in gc.get_referents(referrer)):
                return referrer
        elif getattr(referrer, "__dict__", None) is namespace:
            return referrer
    return None


def attribute_of(holder: object, thing: object) -> str:
    """Return the name of the attribute of `holder` that is `thing`.

    It may also be one of `__slots__`, or a variable of a suspended generator.
    """
    namespaces = [getattr(holder, "__dict__", {})]
    for cls in type(holder).__mro__:
        slots = cls.__dict__.get("__slots__", ())
        names = (slots,) if isinstance(slots, str) else slots
        namespaces.append({name: getattr(holder, name, None) for name in names})
    frame = getattr(holder, "gi_frame", None)
    namespaces.append(frame.f_locals if isinstance(frame, FrameType) else {})
    for namespace in namespaces:
        for name, value in namespace.items():
            if value is thing:
                return str(name)
    return ""


def stack_variables() -> dict[int, list[tuple[str, str]]]:
    """Return the local variables of all running functions, and of those of the last error.

    Those of other threads are among them.
    """
    variables_: dict[int, list[tuple[str, str]]] = {}
    for frame in running_frames():
        note_locals(frame, "", "variable", variables_)
    trace = getattr(getattr(sys, "last_value", None), "__traceback__", None)
    while trace is not None:
        note_locals(trace.tb_frame, " (of the last error)", "traceback", variables_)
        trace = trace.tb_next
    return variables_


def note_locals(
    frame: FrameType, after: str, category: str, variables_: dict[int, list[tuple[str, str]]]
) -> None:
    if frame.f_globals.get("__name__", "").partition(".")[0] in LIBRARY_MODULES:
        return
    if frame.f_locals is frame.f_globals:
        return
    for name, value in frame.f_locals.items():
        where = f" in {frame.f_code.co_name}()"
        variables_.setdefault(id(value), []).append((f"{name}{after or where}", category))


def find_kept_graphs() -> list[Finding]:
    """Return a finding for each holder of graphs that are alive now, the largest first."""
    gc.collect()
    tensors = graph_tensors()
    groups: dict[tuple[str, str], dict[int, Tensor]] = {}
    shown: set[str] = set()  # the cells that have displayed them
    asked = tensors[: -MOST_ASKED - 1 : -1]  # the newest first
    referrers = Referrers({id(tensors), id(asked)})
    referrers.find(asked, set())
    for tensor in asked:
        for path, category in find_holders(tensor, referrers) or [("something", "unknown")]:
            name = re.split(r"[.[]" if category in ("Out", "_") else r"\[", path)[0]
            name = name if category in ("list", "Out", "_") else path
            shown.update(OUTPUT.findall(path) if category == "Out" else ())
            groups.setdefault((name, category), {})[id(tensor)] = tensor
        if referrers.is_late():
            break
    sized_findings = []
    for (name, category), tensors_kept in groups.items():
        kept = list(tensors_kept.values())
        sizes = [graph_size(tensor._node) for tensor in kept[:50]]
        size = size_text(sizes, sum(tensor.nbytes for tensor in kept))
        advice = ADVICE[category].format(name=name)
        holder = next(iter(shown)) if category == "Out" and len(shown) == 1 else name
        sized_findings.append((
            sum(ops for ops, _ in sizes),
            finding("kept-graphs", count=len(kept), size=size,
                    graphs="graphs" if len(kept) > 1 else "graph", holder=f"`{holder}`",
                    advice=advice, subject=f"kept {name}"),
        ))  # fmt: skip
    return [result for _, result in sorted(sized_findings, key=lambda pair: -pair[0])]
