"""Figures of the running server, as Prometheus reads them; each app has its own."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from alphita.service.batching import Batch

SECONDS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
MEDIA_TYPE = CONTENT_TYPE_LATEST


class Metrics:
    """Counts and times; see each one's own words."""

    def __init__(self, *, version: str, index: str, model: str, waiting: Callable[[], float]) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._requests = Counter(
            "alphita_requests_total", "Requests answered.", ("route", "method", "status"), registry=self.registry
        )
        self._seconds = Histogram(
            "alphita_request_seconds",
            "Seconds from a request to the end of its answer.",
            ("route",),
            buckets=SECONDS,
            registry=self.registry,
        )
        self._refused = Counter(
            "alphita_refused_total", "Requests refused, by reason.", ("code",), registry=self.registry
        )
        self._open = Gauge("alphita_requests_open", "Requests being answered.", registry=self.registry)
        self._sizes = Histogram(
            "alphita_batch_size", "Mentions and texts answered together.", buckets=SIZES, registry=self.registry
        )
        self._batch_requests = Histogram(
            "alphita_batch_requests", "Requests answered together.", buckets=SIZES, registry=self.registry
        )
        self._batch_seconds = Histogram(
            "alphita_batch_seconds", "Seconds of a batch.", buckets=SECONDS, registry=self.registry
        )
        self._tokens = Counter("alphita_batch_tokens_total", "Tokens answered, about.", registry=self.registry)
        depth = Gauge("alphita_queue_depth", "Mentions and texts waiting or being answered.", registry=self.registry)
        depth.set_function(waiting)
        about = Gauge("alphita_build_info", "What is running.", ("version", "index", "model"), registry=self.registry)
        about.labels(version, index, model).set(1)

    def begin(self) -> None:
        """Count a request that begins."""
        self._open.inc()

    def end(self, route: str, method: str, status: int, seconds: float, refused: str | None) -> None:
        """Count a request that is answered."""
        self._open.dec()
        self._requests.labels(route, method if method in METHODS else "other", str(status)).inc()
        self._seconds.labels(route).observe(seconds)
        if refused is not None:
            self._refused.labels(refused).inc()

    def batch(self, batch: Batch) -> None:
        """Count a batch."""
        self._sizes.observe(batch.questions)
        self._batch_requests.observe(batch.requests)
        self._batch_seconds.observe(batch.seconds)
        self._tokens.inc(batch.tokens)

    def text(self) -> bytes:
        """Return all of them in Prometheus's format."""
        return generate_latest(self.registry)
