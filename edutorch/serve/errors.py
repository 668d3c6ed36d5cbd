"""Errors of the server: each knows the HTTP status that it becomes."""

from __future__ import annotations

from collections.abc import Mapping

from ..errors import EdutorchError


class RequestError(EdutorchError, ValueError):
    """A request that is not answered with a result. The text goes to the client.

    Args:
        status: the HTTP status.
        message: what is wrong, in one sentence.
        headers: further headers of the answer, such as Retry-After.

    >>> raise RequestError(404, "there is no model 'mlp'")
    Traceback (most recent call last):
    edutorch.serve.errors.RequestError: serve: there is no model 'mlp'
    """

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__("serve", message)
        self.status, self.headers = status, dict(headers or {})

    def __reduce__(self) -> tuple[type[RequestError], tuple[int, str, dict[str, str]]]:
        return type(self), (self.status, self.message, self.headers)


class BadRequest(RequestError):
    """A request that is malformed, or does not fit the model: status 400."""

    def __init__(self, message: str) -> None:
        super().__init__(400, message)

    def __reduce__(self) -> tuple[type[BadRequest], tuple[str]]:  # type: ignore[override]
        return type(self), (self.message,)


class ModelError(EdutorchError, RuntimeError):
    """A model in the folder cannot be loaded, or fails its warm-up."""
