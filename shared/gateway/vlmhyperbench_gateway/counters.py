"""Count requests and write the counts as Prometheus text; they are diagnostics and no measurement."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from vlmhyperbench_gateway.streams import Meter
from vlmhyperbench_sdk.gateway import ModelStatus

BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
STATES = ("unloaded", "loading", "ready", "unloading", "error")


class Histogram:
    """Cumulative counts by upper bound, as Prometheus wants them."""

    def __init__(self) -> None:
        self._counts = [0] * len(BUCKETS_S)
        self._sum = 0.0
        self._count = 0

    def observe(self, seconds: float) -> None:
        """Add one value."""
        self._sum += seconds
        self._count += 1
        for index, bound in enumerate(BUCKETS_S):
            if seconds <= bound:
                self._counts[index] += 1

    def lines(self, name: str, title: str) -> list[str]:
        """Write the series."""
        rows = [
            f'{name}_bucket{{le="{bound:g}"}} {count}' for bound, count in zip(BUCKETS_S, self._counts, strict=True)
        ]
        rows += [
            f'{name}_bucket{{le="+Inf"}} {self._count}',
            f"{name}_sum {self._sum:.6f}",
            f"{name}_count {self._count}",
        ]
        return [f"# HELP {name} {title}", f"# TYPE {name} histogram", *rows]


class Counters:
    """Everything that `/metrics` shows."""

    def __init__(self) -> None:
        self.in_flight = 0
        self.ok = 0
        self.failed = 0
        self.output_tokens = 0
        self.latency = Histogram()
        self.ttft = Histogram()

    @contextmanager
    def request(self, meter: Meter) -> Iterator[None]:
        """Count a request from its arrival to the end of its answer."""
        self.in_flight += 1
        try:
            yield
        except BaseException:
            self.failed += 1
            raise
        else:
            self.ok += 1
            self.output_tokens += meter.completion_tokens or 0
            self.latency.observe(((meter.last_ns or time.monotonic_ns()) - meter.received_ns) / 1e9)
            if meter.first_ns is not None:
                self.ttft.observe((meter.first_ns - meter.received_ns) / 1e9)
        finally:
            self.in_flight -= 1

    def text(self, status: ModelStatus) -> str:
        """Write the Prometheus text format, version 0.0.4."""
        lines = [
            "# HELP vlmhyperbench_gateway_requests_total Chat requests that ended, by outcome.",
            "# TYPE vlmhyperbench_gateway_requests_total counter",
            f'vlmhyperbench_gateway_requests_total{{outcome="ok"}} {self.ok}',
            f'vlmhyperbench_gateway_requests_total{{outcome="failed"}} {self.failed}',
            "# HELP vlmhyperbench_gateway_requests_in_flight Chat requests that have not ended.",
            "# TYPE vlmhyperbench_gateway_requests_in_flight gauge",
            f"vlmhyperbench_gateway_requests_in_flight {self.in_flight}",
            "# HELP vlmhyperbench_gateway_output_tokens_total Output tokens, by the engine's usage.",
            "# TYPE vlmhyperbench_gateway_output_tokens_total counter",
            f"vlmhyperbench_gateway_output_tokens_total {self.output_tokens}",
            "# HELP vlmhyperbench_gateway_model_state 1 for the present state of the model.",
            "# TYPE vlmhyperbench_gateway_model_state gauge",
            *(f'vlmhyperbench_gateway_model_state{{state="{state}"}} {int(state == status.state)}' for state in STATES),
            *self.latency.lines("vlmhyperbench_gateway_latency_seconds", "From arrival to the last token."),
            *self.ttft.lines("vlmhyperbench_gateway_ttft_seconds", "From arrival to the first token, streams only."),
        ]
        return "\n".join(lines) + "\n"
