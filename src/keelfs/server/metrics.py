"""Figures about a serving process, in the form that Prometheus reads.

They count requests by route, never by tenant or path, so that they tell nothing of anybody.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)

TYPE: Final = b"text/plain; version=0.0.4; charset=utf-8"
_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class Metrics:
    """The figures of one process."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        PlatformCollector(self._registry)
        ProcessCollector(registry=self._registry)
        self._requests = Counter(
            "keelfs_requests", "Requests answered.", ["route", "method", "status"],
            registry=self._registry,
        )  # fmt: skip
        self._seconds = Histogram(
            "keelfs_request_seconds", "From a request's head to the beginning of its answer.",
            ["route"], buckets=_BUCKETS, registry=self._registry,
        )  # fmt: skip
        self.swept = Counter(
            "keelfs_swept", "Things that the background sweep has given back.", ["kind"],
            registry=self._registry,
        )  # fmt: skip
        self.sweep_at = Gauge(
            "keelfs_last_sweep_timestamp_seconds", "When the last sweep ended.",
            registry=self._registry,
        )  # fmt: skip
        self._counter = lru_cache(maxsize=4096)(self._requests.labels)
        self._histogram = lru_cache(maxsize=1024)(self._seconds.labels)

    def observe(self, route: str, method: str, status: int, seconds: float) -> None:
        # A method that nobody knows is a text of the client's; it may not become a label.
        known = method if method in _METHODS else "other"
        self._counter(route or "none", known, str(status)).inc()
        self._histogram(route or "none").observe(seconds)

    def text(self) -> bytes:
        return generate_latest(self._registry)


_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
