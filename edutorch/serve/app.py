"""The HTTP face: which path leads where, and what is checked before."""

from __future__ import annotations

import asyncio
import itertools
import logging
import re
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager, suppress
from time import perf_counter
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, Router

import edutorch

from . import page, predictions
from .batching import queue_full
from .errors import BadRequest, RequestError
from .infer import Reading, read_body, run_request
from .logs import log
from .metrics import Metrics
from .protocol import HEADER_LENGTH, encode_infer, expect, parse_infer, parse_json
from .repository import Model, Repository, Version
from .settings import Settings

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

REQUEST_ID = re.compile(rb"[A-Za-z0-9._:-]{1,128}")
SERVER_ID = secrets.token_hex(4)
COUNTER = itertools.count(1)

LARGE = 256 << 10
"""Bytes from which a body is read on another thread, so that no other request waits for it."""

EXTENSIONS = ["binary_tensor_data", "model_repository"]


class Server:
    """The models, and the routes to them. It is an ASGI application.

    It gives each request an id, checks who may ask, writes a line of log for each answer, and turns
    errors into JSON.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.metrics = Metrics()
        self.repository = Repository(settings, self.metrics)
        self.draining = False
        self.reading = Reading()
        self.hosts = {"localhost", "127.0.0.1", "::1", settings.host, *settings.allow_hosts}
        self.router = Router(self.routes(), lifespan=self.lifespan)

    @asynccontextmanager
    async def lifespan(self, _: Any) -> AsyncIterator[None]:
        """Load the models beside the running server, which is live meanwhile but not ready."""
        loading = asyncio.create_task(self.load_and_watch())
        try:
            yield
        finally:
            loading.cancel()
            with suppress(asyncio.CancelledError):
                await loading
            await self.repository.close()

    async def load_and_watch(self) -> None:
        """Load the models once, and again when they change if the settings say so."""
        await self.repository.start()
        if self.settings.reload > 0:
            await self.repository.watch()

    def routes(self) -> list[Route]:
        """Return the table of paths."""
        get, post = ["GET"], ["POST"]
        routes = []
        # The first that matches is taken: what is asked most stands first.
        for path in ("/v2/models/{name}", "/v2/models/{name}/versions/{version}"):
            routes += [
                Route(f"{path}/infer", self.infer, methods=post),
                Route(path, self.model_metadata, methods=get),
                Route(f"{path}/ready", self.model_ready, methods=get),
            ]
        routes += [
            Route("/", self.show_page, methods=get),
            Route("/page.js", page.script, methods=get),
            Route("/page.css", page.sheet, methods=get),
            Route("/models/{name}/graph.svg", self.show_graph, methods=get),
            Route("/metrics", self.show_metrics, methods=get),
            Route("/ping", self.ping, methods=get),
            Route("/predictions/{name}", self.predict, methods=["POST", "PUT"]),  # curl -T puts
            Route("/predictions/{name}/{version}", self.predict, methods=["POST", "PUT"]),
            Route("/v2", self.server_metadata, methods=get),
            Route("/v2/health/live", self.live, methods=get),
            Route("/v2/health/ready", self.ready, methods=get),
            Route("/v2/repository/index", self.index, methods=post),
            Route("/v2/repository/models/{name}/load", self.load, methods=post),
            Route("/v2/repository/models/{name}/unload", self.unload, methods=post),
        ]
        return routes

    # Around each request -------------------------------------------------------------

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        scope["app"] = self  # with it, the router raises for what it does not find
        if scope["type"] != "http":
            await self.router(scope, receive, send)
            return
        start = perf_counter()
        scope["request_id"] = request_id(scope)
        answer = Answer(scope["request_id"], send, self.draining)
        try:
            self.check_source(scope)
            await self.router(scope, receive, answer.send)
        except (RequestError, HTTPException) as error:
            await self.refuse(error, scope, receive, answer)
        except ConnectionAbortedError:  # raised by `infer.py`
            self.metrics.cancelled.inc()
        except Exception as error:  # noqa: BLE001  (a fault in a model, or here)
            log("fault", logging.ERROR, error, request=scope["request_id"], path=scope["path"])
            text = f"{type(error).__name__} in the server; the log has it as {scope['request_id']}"
            await self.refuse(RequestError(500, text), scope, receive, answer)
        self.count(scope, answer.status, perf_counter() - start)

    async def refuse(
        self, error: RequestError | HTTPException, scope: Scope, receive: Receive, answer: Answer
    ) -> None:
        """Answer with an error as JSON, if nothing was answered yet."""
        if answer.status:
            return
        if isinstance(error, RequestError):
            status, text = error.status, error.message
        else:
            status, text = (
                error.status_code,
                f"{error.detail}: {scope['method']} {scope['path'][:200]}",
            )
        self.metrics.errors.labels(str(status)).inc()
        response = JSONResponse({"error": text}, status, headers=error.headers)
        await response(scope, receive, answer.send)

    def check_source(self, scope: Scope) -> None:
        """Refuse requests that a foreign page makes a browser send.

        Without the check of Host, a page could point its own name at 127.0.0.1 and read the
        answers; without that of Origin, it could send requests blindly.

        Raises: RequestError: the host is unknown (421), or the origin is another page (403).
        """
        headers = dict(scope["headers"])
        host = headers.get(b"host", b"").decode("latin-1")
        name = host.rpartition(":")[0] if re.search(r":\d*$", host) else host
        if "*" not in self.hosts and name.strip("[]").lower() not in self.hosts:
            raise RequestError(421, f"unknown host {host[:80]!r}; --allow-host adds a name")
        origin = headers.get(b"origin")
        if origin is not None and origin.decode("latin-1").rpartition("://")[2] != host:
            raise RequestError(403, "a request from a page of another origin")

    def count(self, scope: Scope, status: int, seconds: float) -> None:
        """Count an answer, and write its line of log. Status 0: the client went away."""
        version: Version | None = scope.get("version")
        fields: dict[str, Any] = {}
        if version is not None:
            labels = (version.model, str(version.number))
            self.metrics.count(*labels, str(status), seconds)
            fields = {"model": version.model, "version": version.number}
        log(
            "answered" if status else "client went away",
            logging.DEBUG if scope["path"] in QUIET else logging.INFO,
            request=scope["request_id"], method=scope["method"], path=scope["path"][:200],
            status=status, ms=round(seconds * 1000, 3), **fields,
        )  # fmt: skip

    # Health and metadata -------------------------------------------------------------

    async def live(self, request: Request) -> Response:
        """Return 200: the process answers."""
        return JSONResponse({"live": True})

    async def ready(self, request: Request) -> Response:
        """Return 200 if all models are loaded and the server does not end, else 400."""
        ready = self.is_ready()
        return JSONResponse({"ready": ready}, 200 if ready else 400)

    def is_ready(self) -> bool:
        """Return True if the server takes requests for all its models."""
        return self.repository.is_ready() and not self.draining

    async def ping(self, request: Request) -> Response:
        """Return TorchServe's answer to the same question."""
        if self.is_ready():
            return JSONResponse({"status": "Healthy"})
        return JSONResponse({"status": "Unhealthy"}, 503)

    async def server_metadata(self, request: Request) -> Response:
        """Describe the server."""
        version = edutorch.__version__
        return JSONResponse({"name": "edutorch", "version": version, "extensions": EXTENSIONS})

    async def model_metadata(self, request: Request) -> Response:
        """Describe a model: its versions, inputs and outputs."""
        version = self.find(request)
        model = self.repository.models[version.model]
        return JSONResponse(
            {
                "name": version.model,
                "versions": [str(number) for number in sorted(model.versions)],
                "platform": version.served.platform,
                "inputs": [spec.metadata() for spec in version.served.inputs],
                "outputs": [spec.metadata() for spec in version.served.outputs],
            }
        )

    async def model_ready(self, request: Request) -> Response:
        """Return 200 if a model is loaded, else 400; 404 if there is none of that name."""
        try:
            version = self.find(request)
        except RequestError as error:
            if error.status == 404:
                raise
            raise BadRequest(error.message) from error
        return JSONResponse({"name": version.model, "ready": True})

    async def show_metrics(self, request: Request) -> Response:
        """Return the metrics."""
        return Response(self.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    # Inference -----------------------------------------------------------------------

    def find(self, request: Request) -> Version:
        """Return the version that a path names."""
        path = request.path_params
        version = self.repository.find(path["name"], path.get("version"))
        request.scope["version"] = version
        return version

    async def accept(self, request: Request) -> tuple[Version, bytes]:
        """Return the version that a request is for, and its body.

        Raises: RequestError: there is none, or the queue is full: then no body is read.
        """
        version = self.find(request)
        if version.batcher.is_full():
            raise queue_full(self.settings.queue)
        return version, await read_body(request, self.settings, self.reading)

    async def infer(self, request: Request) -> Response:
        """Answer a request of the protocol."""
        version, body = await self.accept(request)
        served = version.served
        length = request.headers.get(HEADER_LENGTH)
        parsed = await off_loop(len(body), parse_infer, body, length, served)
        results = await run_request(request, version, parsed.arrays, parsed.timeout, self.settings)
        size = sum(array.nbytes for array in results.values())
        content, json_size = await off_loop(
            size, encode_infer, version.model, str(version.number), parsed, results, served
        )
        if json_size is None:
            return Response(content, media_type="application/json")
        headers = {"Inference-Header-Content-Length": str(json_size)}
        return Response(content, headers=headers, media_type="application/octet-stream")

    async def predict(self, request: Request) -> Response:
        """Answer as TorchServe does: nested lists, or whatever the model's handler reads."""
        version, body = await self.accept(request)
        content_type = request.headers.get("content-type", "")
        reading = (predictions.read, body, content_type, version.served)
        arrays, is_single = await off_loop(len(body), *reading)
        results = await run_request(request, version, arrays, None, self.settings)
        size = sum(array.nbytes for array in results.values())
        content = await off_loop(size, predictions.write, results, is_single, version.served)
        return Response(content, media_type="application/json")

    # The repository ------------------------------------------------------------------

    async def control(self, request: Request) -> dict[str, Any]:
        """Return the body of a request that only some may make.

        Raises: RequestError: the server was started without --allow-control (403).
        """
        if not self.settings.allow_control:
            raise RequestError(403, "the server was started without --allow-control")
        body = await read_body(request, self.settings, self.reading)
        return expect(parse_json(body), dict, "the request") if body else {}

    async def index(self, request: Request) -> Response:
        """List all versions of all models."""
        only_ready = (await self.control(request)).get("ready") is True
        entries = [
            entry
            for model in self.repository.models.values()
            for entry in list_versions(model)
            if entry["state"] == "READY" or not only_ready
        ]
        return JSONResponse(entries)

    async def load(self, request: Request) -> Response:
        """Load a model anew."""
        if (await self.control(request)).get("parameters"):
            raise BadRequest("`parameters` of load: a model is what its folder holds")
        await self.repository.load(request.path_params["name"])
        return JSONResponse({})

    async def unload(self, request: Request) -> Response:
        """Unload a model."""
        await self.control(request)
        await self.repository.unload(request.path_params["name"])
        return JSONResponse({})

    # The page ------------------------------------------------------------------------

    async def show_page(self, request: Request) -> Response:
        """Return the page with a form for each model."""
        return page.show(self.repository)

    async def show_graph(self, request: Request) -> Response:
        """Return the picture of a model's graph."""
        version = self.find(request)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self.repository.loaders, page.graph, version)


QUIET = {"/v2/health/live", "/v2/health/ready", "/ping", "/metrics"}
"""What is asked every few seconds: only `--log-level debug` shows it."""


class Answer:
    """What is sent for a request: each answer has the request's id, and its status is kept."""

    def __init__(self, identifier: str, send: Send, closes: bool) -> None:
        self.identifier, self.sender, self.closes = identifier, send, closes
        self.status = 0

    async def send(self, message: Message) -> None:
        """Send a message of ASGI."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = message.setdefault("headers", [])
            headers.append((b"x-request-id", self.identifier.encode()))
            headers.append((b"x-content-type-options", b"nosniff"))
            if self.closes or self.status in (408, 413):
                headers.append((b"connection", b"close"))
        await self.sender(message)


def request_id(scope: Scope) -> str:
    """Return the id that the client gave a request, or a new one."""
    for name, value in scope["headers"]:
        if name == b"x-request-id" and REQUEST_ID.fullmatch(value):
            return value.decode()
    return f"{SERVER_ID}-{next(COUNTER)}"


async def off_loop(size: int, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function: on another thread if it has much to do."""
    if size < LARGE:
        return function(*arguments)
    return await asyncio.to_thread(function, *arguments)


def list_versions(model: Model) -> list[dict[str, str]]:
    """Return the entries of the repository's index for a model."""
    if model.unloaded:
        return [{"name": model.name, "version": "", "state": "UNAVAILABLE", "reason": "unloaded"}]
    ready = [
        {"name": model.name, "version": str(number), "state": "READY", "reason": ""}
        for number in sorted(model.versions)
    ]
    return ready + [
        {"name": model.name, "version": str(number), "state": "UNAVAILABLE", "reason": reason}
        for number, reason in sorted(model.failures.items())
        if number not in model.versions
    ]
