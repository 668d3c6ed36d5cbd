"""What `/metrics` shows, in the format of Prometheus."""

from __future__ import annotations

from typing import NamedTuple

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)  # fmt: skip

SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)
ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class ModelMetrics(NamedTuple):
    """The metrics of one version of a model."""

    queue: Gauge
    batch: Histogram
    queue_time: Histogram
    compute_time: Histogram


class Metrics:
    """All metrics of a server. Each server has its own registry."""

    def __init__(self) -> None:
        disable_created_metrics()  # a time for each series: twice the lines, which nobody reads
        self.registry = registry = CollectorRegistry()
        labels = ("model", "version")
        self.answers: dict[tuple[str, str, str], tuple[Counter, Histogram]] = {}
        self.requests = Counter(
            "edutorch_requests", "Requests for a model, by status.", (*labels, "status"),
            registry=registry,
        )  # fmt: skip
        self.errors = Counter(
            "edutorch_errors", "Requests that were not answered with a result, by status.",
            ("status",), registry=registry,
        )  # fmt: skip
        self.seconds = Histogram(
            "edutorch_request_seconds", "From a request's headers to its answer.", labels,
            buckets=SECONDS, registry=registry,
        )  # fmt: skip
        self.queue = Gauge(
            "edutorch_queue", "Requests that wait for a batch.", labels, registry=registry
        )
        self.batch = Histogram(
            "edutorch_batch_rows", "Rows of a call.", labels, buckets=ROWS, registry=registry
        )
        self.queue_time = Histogram(
            "edutorch_queue_seconds", "Time in the queue.", labels, buckets=SECONDS,
            registry=registry,
        )  # fmt: skip
        self.compute_time = Histogram(
            "edutorch_compute_seconds", "Time of a call.", labels, buckets=SECONDS,
            registry=registry,
        )  # fmt: skip
        self.loads = Counter(
            "edutorch_loads", "Versions that were loaded, or not.", ("result",), registry=registry
        )
        self.cancelled = Counter(
            "edutorch_cancelled", "Clients that went away before their answer.", registry=registry
        )

    def count(self, model: str, version: str, status: str, seconds: float) -> None:
        """Count the answer to a request for a model."""
        key = (model, version, status)
        if key not in self.answers:  # to look a series up costs as much as the rest of the request
            self.answers[key] = self.requests.labels(*key), self.seconds.labels(model, version)
        counter, histogram = self.answers[key]
        counter.inc()
        histogram.observe(seconds)

    def of(self, model: str, version: str) -> ModelMetrics:
        """Return the metrics of a version."""
        return ModelMetrics(
            self.queue.labels(model, version),
            self.batch.labels(model, version),
            self.queue_time.labels(model, version),
            self.compute_time.labels(model, version),
        )

    def text(self) -> bytes:
        """Return all of them as text."""
        return generate_latest(self.registry)
