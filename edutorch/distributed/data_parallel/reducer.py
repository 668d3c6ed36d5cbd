"""The reducer: averages gradients over all ranks while backward computes the others.

In each backward pass a bucket waits for its gradients. Once they are there, and all buckets before
it have left (all ranks send in the same order), it is sent: an `all_reduce` beside the program.
When the last one has left, the reducer waits for all of them and writes the averages into `.grad`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set
from contextlib import nullcontext
from typing import Any

import numpy as np

from ...core.tensor import Tensor
from ...events import work as listened_work
from ...modes import current
from ...ops import tensor
from ..collectives import all_reduce
from ..process_group import ProcessGroup
from ..work import Future, Work
from .buckets import Bucket, GradBucket, assign_buckets

__all__ = ["Reducer"]

Hook = Callable[[Any, GradBucket], Future]


def told(name: str) -> Any:
    """Tell listeners of a block, such as a profiler, if there are any."""
    return listened_work("range", name) if current().listeners else nullcontext()


class Reducer:
    """The gradients of a model on their way between the ranks.

    Args:
        parameters: those that need a gradient, in the order of the model.
        group: the ranks.
        capacity: of a bucket, in bytes.
        shares_memory: `.grad` is a view of the bucket (`gradient_as_bucket_view`).
    """

    def __init__(
        self, parameters: Sequence[Tensor], group: ProcessGroup, capacity: float,
        shares_memory: bool,
    ) -> None:  # fmt: skip
        self.parameters, self.group = list(parameters), group
        self.capacity, self.shares_memory = capacity, shares_memory
        self.hook: tuple[Hook, Any] | None = None  # with its state
        self.divisor = group.size()
        self.arrivals: list[int] = []  # the order of this pass
        self.is_active = False  # a backward pass has to be averaged
        self.asks_who_uses = False  # some parameters may be unused on some ranks, or on all
        self.users: tuple[Tensor, Work] | None = None  # how many ranks use each, and its message
        self.is_ordered = False  # the buckets follow the order of a backward pass
        self.ready: set[int] = set()
        self.accumulated = self.expected = 0  # parameters whose `.grad` is, or will be, complete
        self.build(range(len(self.parameters) - 1, -1, -1))

    def build(self, order: Iterable[int]) -> None:
        """Make the buckets for an order of arrival."""
        parts = assign_buckets(self.parameters, order, self.capacity)
        self.buckets = [Bucket(part, [self.parameters[i] for i in part]) for part in parts]
        self.place = {
            index: (bucket, position)
            for bucket in self.buckets
            for position, index in enumerate(bucket.indices)
        }
        self.next = 0

    def prepare(self, unused: Iterable[int] = ()) -> None:
        """Begin a pass: after the forward, before the backward.

        Args: unused: the parameters that get no gradient in this pass; they take part with zeros.
        """
        if self.arrivals and not self.is_ordered:
            self.follow_first_pass()
        for bucket in self.buckets:
            bucket.prepare()
        self.next, self.is_active = 0, True
        self.arrivals, self.ready, self.accumulated = [], set(), 0
        left_out = list(unused)
        self.expected = len(self.parameters) - len(left_out)
        if self.asks_who_uses:
            self.count_users(left_out)
        for index in left_out:
            self.take_zeros_or_grad(index)
        if not self.expected:
            self.finish()

    def count_users(self, unused: Iterable[int]) -> None:
        """Begin to count the ranks that use each parameter: what none uses keeps its `.grad`."""
        uses = np.ones(len(self.parameters), np.int32)
        uses[list(unused)] = 0
        users = tensor(uses)
        work = all_reduce(users, group=self.group, async_op=True)
        assert work is not None
        self.users = users, work

    def pass_without_batch(self) -> None:
        """Take part in the pass of other ranks, with gradients of zeros."""
        for parameter in self.parameters:
            if self.shares_memory or parameter._grad is None:
                parameter._grad = None
            else:
                parameter._grad._array[...] = 0
        self.prepare(range(len(self.parameters)))

    def follow_first_pass(self) -> None:
        """Make the buckets anew in the order in which the gradients of the first pass came."""
        self.is_ordered = True
        if len(self.arrivals) == len(self.parameters):
            orders = self.group.engine.all_gather_object(self.arrivals)
            self.build(orders[0])

    def pending(self) -> list[int]:
        """Return the parameters whose gradients this pass still waits for."""
        if not self.is_active:
            return []
        return [index for index in range(len(self.parameters)) if index not in self.ready]

    def view_of(self, index: int) -> Tensor:
        """Return the part of a bucket that belongs to a parameter."""
        bucket, position = self.place[index]
        return bucket.views[position]

    def take(self, index: int, gradient: Any) -> None:
        """Take the gradient of this pass, an array, before it is in `.grad`."""
        if not self.is_active or index in self.ready:
            return
        view, earlier = self.view_of(index), self.parameters[index]._grad
        if earlier is None:
            view._array[...] = gradient
        else:  # of passes inside of `no_sync`
            np.add(earlier._array, gradient, out=view._array)
        self.count(index)

    def mark_ready(self, index: int) -> None:
        """Take a gradient from `.grad`, if it has not come before. After the last one, finish."""
        if not self.is_active:
            return
        self.accumulated += 1
        if index not in self.ready:
            self.take_zeros_or_grad(index)
        if self.accumulated == self.expected:
            self.finish()

    def take_zeros_or_grad(self, index: int) -> None:
        """Take what `.grad` has: nothing is a gradient of zeros."""
        view, grad = self.view_of(index), self.parameters[index]._grad
        if grad is None:
            view._array[...] = 0
        elif grad._array is not view._array:
            view._array[...] = grad._array
        self.count(index)

    def count(self, index: int) -> None:
        """Count a gradient that is in its bucket, and send every bucket that can leave."""
        self.ready.add(index)
        self.arrivals.append(index)
        self.place[index][0].missing -= 1
        while self.next < len(self.buckets) and not self.buckets[self.next].missing:
            self.send(self.next)
            self.next += 1
        for bucket in self.buckets[: self.next]:  # MPI makes progress when it is asked
            if isinstance(bucket.work, Work):
                bucket.work.is_completed()

    def send(self, number: int) -> None:
        """Start the message of a bucket."""
        with told(f"DDP bucket {number} leaves"):
            self.start_message(number)

    def start_message(self, number: int) -> None:
        """Call the hook of a bucket, or `all_reduce`."""
        bucket = self.buckets[number]
        if self.hook is None:
            bucket.work = all_reduce(bucket.flat, group=self.group, async_op=True)  # type: ignore[assignment]
            return
        hook, state = self.hook
        is_last = number == len(self.buckets) - 1
        bucket.work = hook(state, GradBucket(bucket, number, is_last))  # type: ignore[assignment]

    def finish(self) -> None:
        """Wait for all messages, and write the averages into `.grad`."""
        self.is_active = False
        unused: set[int] = set()
        if self.users is not None:
            (users, work), self.users = self.users, None
            work.wait()
            unused = {index for index, count in enumerate(users.tolist()) if not count}
        for number, bucket in enumerate(self.buckets):
            with told(f"DDP bucket {number} arrives"):
                self.write_gradients(bucket, self.wait_for(bucket), unused)

    def wait_for(self, bucket: Bucket) -> float:
        """Wait for the message of a bucket. Returns a factor that makes it an average."""
        if isinstance(bucket.work, Work):
            bucket.work.wait()
            return 1.0 / self.divisor
        if bucket.work is not None:  # the future of a hook, which has divided already
            result = bucket.work.wait()  # type: ignore[attr-defined]
            result = result[0] if isinstance(result, (list, tuple)) else result
            if result is not bucket.flat:
                bucket.flat._array[...] = result._array
        return 1.0

    def write_gradients(self, bucket: Bucket, scale: float, unused: Set[int]) -> None:
        """Write the averages of a bucket into the gradients of its parameters.

        Args: unused: parameters that no rank has used: they keep what they have.
        """
        if self.shares_memory:
            if scale != 1.0:
                bucket.flat._array *= bucket.flat._array.dtype.type(scale)
            for index, parameter, view in bucket.members():
                if parameter._grad is not view and index not in unused:
                    parameter._grad = view
            return
        for index, parameter, view in bucket.members():
            grad = parameter._grad
            if index in unused:
                continue
            if grad is None:  # unused here, but perhaps not elsewhere
                parameter._grad = view.clone().mul_(scale)
                continue
            factor = view._array.dtype.type(scale)
            np.multiply(view._array, factor, out=grad._array)
            grad._bump()
