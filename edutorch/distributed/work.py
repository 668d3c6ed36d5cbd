"""The handle of a collective that runs beside the program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from types import GenericAlias
from typing import Any

from .errors import DistBackendError

__all__ = ["Future", "Work"]

PENDING: set[Work] = set()
"""What is on its way: MPI writes into its memory, even where a program has dropped the handle."""

MANY = 64
"""With so many, those that are complete are looked for."""


class Work:
    """A collective on its way, as `async_op=True` returns it.

    Args:
        requests: MPI's requests, which are tested or waited for.
        finish: called once when all are complete: it writes the result into the tensors.
        result: what `result()` returns: the tensors that are written.
        name: the collective, for errors.
    """

    def __init__(
        self, requests: Sequence[Any], finish: Callable[[], None], result: Sequence[Any] = (),
        name: str = "",
    ) -> None:  # fmt: skip
        self._requests = list(requests)
        self._finish: Callable[[], None] | None = finish
        self._result, self._name = list(result), name
        self._callbacks: list[Callable[[Work], Any]] = []
        self._exception: BaseException | None = None
        if requests:
            if len(PENDING) >= MANY:
                for work in list(PENDING):
                    work.is_completed()
            PENDING.add(self)

    def is_completed(self) -> bool:
        """Whether it is complete. Asking also lets MPI make progress."""
        if self._finish is not None:
            tested = [request.Test() for request in self._requests]  # each one makes progress
            if all(tested):
                self._complete()
        return self._finish is None

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Wait until it is complete, and return True.

        Raises: DistBackendError: the library has failed, for example since another rank called
            something else.
        """
        if self._finish is not None:
            try:
                for request in self._requests:
                    request.Wait()
            except Exception as error:
                self._exception, self._finish = error, None
                PENDING.discard(self)
                raise DistBackendError(self._name, f"MPI has failed: {error}") from error
            self._complete()
        return True

    def _complete(self) -> None:
        finish, self._finish = self._finish, None
        PENDING.discard(self)
        if finish is not None:
            finish()
        for callback in self._callbacks:
            callback(self)

    def is_success(self) -> bool:
        """Whether it is complete, without an error."""
        return self._finish is None and self._exception is None

    def exception(self) -> BaseException | None:
        """Return the error, or None."""
        return self._exception

    def result(self) -> list[Any]:
        """Return the tensors that it wrote, after waiting for it."""
        self.wait()
        return self._result

    def synchronize(self) -> None:
        """Wait until it is complete."""
        self.wait()

    def get_future(self) -> Future:
        """Return the future of its result, as hooks of DDP use it."""
        return Future(self)

    def when_done(self, callback: Callable[[Work], Any]) -> None:
        """Call `callback(work)` when it is complete: at once, if it is so already."""
        if self._finish is None:
            callback(self)
        else:
            self._callbacks.append(callback)


class Future:
    """The result of a `Work`, and what is computed from it, as hooks of DDP use it."""

    __class_getitem__ = classmethod(GenericAlias)  # in annotations: `Future[Tensor]`

    def __init__(self, work: Work | None = None) -> None:
        self._work, self._value, self._steps = work, None, []  # type: ignore[var-annotated]

    def set_result(self, value: Any) -> None:
        """Set the result."""
        self._value = value

    def then(self, callback: Callable[[Future], Any]) -> Future:
        """Return the future of `callback(this future)`."""
        later = Future(self._work)

        def step(_: Any) -> Any:
            self.wait()
            return callback(self)

        later._steps = [step]
        return later

    def done(self) -> bool:
        """Whether the result is there."""
        return self._work is None or self._work.is_completed()

    def value(self) -> Any:
        """Return the result."""
        return self.wait()

    def wait(self) -> Any:
        """Wait for the result and return it."""
        if self._work is not None:
            self._work.wait()
        if self._steps:
            (step,), self._steps = self._steps, []
            self._value = step(None)
        elif self._value is None and self._work is not None:
            self._value = self._work.result()
        return self._value
