"""What /metrics shows, with prometheus_client: requests, documents, queue, jobs, the shared batch, workers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

if TYPE_CHECKING:
    from derender.serve.service import Service

_BUCKETS = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, float("inf"))


class Metrics:
    """One registry for each app, so that several can live in one process."""

    def __init__(self, service: Service) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "derender_http_requests", "Requests answered", ["method", "route", "status"], registry=self.registry
        )
        self.seconds = Histogram(
            "derender_http_seconds", "Seconds to the last byte", ["route"], buckets=_BUCKETS, registry=self.registry
        )
        self.registry.register(_State(service))

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        self.requests.labels(method, route, str(status)).inc()
        self.seconds.labels(route).observe(seconds)

    def text(self) -> bytes:
        return generate_latest(self.registry)


class _State:
    """Values that live elsewhere, read when somebody asks."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def describe(self) -> list[Any]:
        return []

    def collect(self) -> Iterator[Any]:
        s = self._service
        yield GaugeMetricFamily("derender_documents_queued", "Documents waiting or being read", s.dispatcher.depth)
        yield GaugeMetricFamily("derender_clients_waiting", "Clients being served or waiting", s.dispatcher.seats)
        yield GaugeMetricFamily("derender_engine_depth", "Regions waiting or being decoded", s.host.depth)
        yield GaugeMetricFamily("derender_engine_most_clients", "Most documents in one batch", s.host.most_together)
        yield CounterMetricFamily("derender_engine_regions", "Regions decoded", s.host.regions)
        yield CounterMetricFamily("derender_engine_tokens", "Tokens decoded", s.host.tokens)
        yield CounterMetricFamily("derender_worker_deaths", "Workers that a document killed", s.pool.deaths)
        jobs = GaugeMetricFamily("derender_jobs", "Jobs in the database", labels=["status"])
        for status, count in s.store.counts().items():
            jobs.add_metric([status], count)
        yield jobs
