"""Metrics: sums over everybody, under labels that were known before anybody came.

A thin layer over prometheus-client, which is imported here only. Every label lists its values when the metric is made;
there is no other way to get one, so no address, name or path of a person can become a label. A value that is not on
the list is counted as ``refused``: a metric is no reason to stop serving.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Generic, TypeVar

import prometheus_client as prometheus

#: What is counted here was handed over with a label that its metric does not have.
REFUSED = "refused"

Labels = Mapping[str, Sequence[str]]
M = TypeVar("M", prometheus.Counter, prometheus.Gauge, prometheus.Histogram)


class _Family(Generic[M]):
    """A metric and its children, one for each combination of labels; all are there from the beginning, at zero."""

    def __init__(self, metric: M, labels: Labels) -> None:
        self._metric: M = metric
        self._names = tuple(labels)
        self._children: dict[tuple[str, ...], M] = {
            values: metric.labels(*values) if labels else metric for values in product(*labels.values())
        }

    def _child(self, labels: Mapping[str, str]) -> M:
        values = tuple(labels.get(name, REFUSED) for name in self._names)
        if values not in self._children or len(labels) != len(values):
            values = (REFUSED,) * len(values)
            if values not in self._children:
                self._children[values] = self._metric.labels(*values)
        return self._children[values]


class Counter(_Family[prometheus.Counter]):
    """A number that only grows, such as requests."""

    def add(self, amount: int = 1, /, **labels: str) -> None:
        """Count so many more."""
        self._child(labels).inc(amount)


class Gauge(_Family[prometheus.Gauge]):
    """A number that goes up and down, such as open connections."""

    def set(self, value: float, /, **labels: str) -> None:
        """Say how much it is now."""
        self._child(labels).set(value)


class Histogram(_Family[prometheus.Histogram]):
    """How values are spread."""

    def observe(self, value: float, /, **labels: str) -> None:
        """Count one value."""
        self._child(labels).observe(value)


class Metrics:
    """All metrics of one process, in a registry of its own; each is called ``secvm_PARTY_NAME``."""

    def __init__(self, party: str) -> None:
        self._party = party
        self._registry = prometheus.CollectorRegistry(auto_describe=False)
        #: What is built anew in the life of a process, as a driver is, goes on counting where it was.
        self._counters: dict[str, Counter] = {}
        self._gauges: dict[str, Gauge] = {}
        # One more line for each metric, to say when the process began.
        prometheus.disable_created_metrics()  # type: ignore[no-untyped-call]  # as the library has it

    def counter(self, name: str, help_: str, labels: Labels | None = None) -> Counter:
        """A counter, the same again for the same name; prometheus adds ``_total`` to it."""
        if name not in self._counters:
            labels = labels or {}
            made = prometheus.Counter(self._called(name), help_, tuple(labels), registry=self._registry)
            self._counters[name] = Counter(made, labels)
        return self._counters[name]

    def gauge(self, name: str, help_: str, labels: Labels | None = None) -> Gauge:
        """A gauge, the same again for the same name."""
        if name not in self._gauges:
            labels = labels or {}
            made = prometheus.Gauge(self._called(name), help_, tuple(labels), registry=self._registry)
            self._gauges[name] = Gauge(made, labels)
        return self._gauges[name]

    def histogram(
        self, name: str, help_: str, labels: Labels | None = None, *, buckets: Sequence[float] | None = None
    ) -> Histogram:
        """A new histogram; ``buckets``: upper ends, ascending, prometheus's own without."""
        labels = labels or {}
        bounds = prometheus.Histogram.DEFAULT_BUCKETS if buckets is None else tuple(buckets)
        return Histogram(
            prometheus.Histogram(self._called(name), help_, tuple(labels), registry=self._registry, buckets=bounds),
            labels,
        )

    def page(self) -> tuple[bytes, str]:
        """What ``GET /metrics`` answers, and its media type."""
        return prometheus.generate_latest(self._registry), prometheus.CONTENT_TYPE_LATEST

    def _called(self, name: str) -> str:
        return f"secvm_{self._party.replace('-', '_')}_{name}"
