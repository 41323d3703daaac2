"""A value of a metric of the table, and many of them as the text that Prometheus reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from vlmhyperbench.monitoring.catalogue import METRICS, PLATFORM


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """The value of a metric, named without its prefix."""

    name: str
    value: float
    labels: dict[str, str] = field(default_factory=dict)


def find(numbers: Iterable[Number], name: str, **labels: str) -> Iterator[Number]:
    """Yield the numbers of a metric that have these labels."""
    for number in numbers:
        if number.name == name and labels.items() <= number.labels.items():
            yield number


def write_text(numbers: Iterable[Number]) -> bytes:
    """Write every metric of the platform, also one that has no value now, so that a query for it is never unknown."""
    from prometheus_client import CollectorRegistry, generate_latest
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
    from prometheus_client.metrics_core import Metric

    by_name: dict[str, list[Number]] = {name: [] for name, row in METRICS.items() if row.source == PLATFORM}
    for number in numbers:
        by_name[number.name].append(number)

    class Collector:
        def collect(self) -> Iterator[Metric]:
            for name, own in by_name.items():
                row = METRICS[name]
                family_of = CounterMetricFamily if row.kind == "counter" else GaugeMetricFamily
                family = family_of(row.full_name, row.text, labels=row.labels)
                for number in own:
                    family.add_metric([number.labels[label] for label in row.labels], number.value)
                yield family

    registry = CollectorRegistry()
    registry.register(Collector())
    return generate_latest(registry)


def read_text(text: str) -> list[Number]:
    """Read the metrics of the table from the text that a service serves; others are left out."""
    from prometheus_client.parser import text_string_to_metric_families

    full_names = {row.full_name: name for name, row in METRICS.items()}
    return [
        Number(name=full_names[sample.name], value=sample.value, labels=dict(sample.labels))
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name in full_names
    ]
