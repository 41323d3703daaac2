"""Compare two runs in Python."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pydantic import JsonValue

from vlmhyperbench.analysis.comparison import Delta
from vlmhyperbench.analysis.gate_policy import GatePolicy, MetricRule
from vlmhyperbench.errors import VlmHyperBenchError
from vlmhyperbench.extras import needed_for
from vlmhyperbench.reports import comparing
from vlmhyperbench.reports.samples import Samples

if TYPE_CHECKING:
    import polars


def compare(baseline: Samples, other: Samples, *, policy: GatePolicy | None = None) -> comparing.Comparison:
    """Compare two runs; the environment of a metric is prepared here if only its code can combine its values.

    Raises:
        NotFound, InvalidInput, Conflict, PluginFailure, Denied, Unavailable: a metric cannot be opened here, or its
            environment cannot be prepared.
    """
    others = {described["key"] for described in other.described()}
    apart = [spec for key, spec in baseline.combined_apart().items() if key in others]  # its code combines both sides
    if not apart:
        return comparing.compare(baseline, other, policy=policy)
    with needed_for("The environment of a metric", extra="environments,platform"):
        from vlmhyperbench.environments.metric_hosts import metric_hosts_here
        from vlmhyperbench.settings import Settings
    with metric_hosts_here(apart, Settings.load()) as hosts:
        return comparing.compare(baseline, other, policy=policy, hosts=hosts)


class Regression(VlmHyperBenchError, AssertionError):
    """A metric dropped by more than is allowed, or there are too few samples to rule that out."""

    code = "regression"


class RunComparison:
    """A run's answers paired with those of its baseline, sample by sample."""

    def __init__(self, comparison: comparing.Comparison) -> None:
        self._comparison = comparison

    def __str__(self) -> str:
        return f"{self._comparison.other.name} against {self._comparison.baseline.name}: {self.verdict}"

    @property
    def verdict(self) -> str:
        """The result of the comparison in one or two sentences."""
        return comparing.verdict(self._comparison)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Caveats to consider before trusting the numbers."""
        return self._comparison.warnings

    @property
    def metrics(self) -> Mapping[str, Delta]:
        """The paired difference of every metric that both runs have."""
        return self._comparison.deltas

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the whole comparison, as `vlmhyperbench compare --json` prints it."""
        return comparing.rows(self._comparison)

    def to_polars(self) -> polars.DataFrame:
        """Return one row per metric."""
        import polars

        names = ("baseline", "other", "difference", "low", "high", "p_value", "p_adjusted", "pairs", "verdict")
        rows = [
            {"metric": key, **{name: getattr(delta, name) for name in names}} for key, delta in self.metrics.items()
        ]
        return polars.DataFrame(rows, infer_schema_length=None)

    def assert_no_regression(self, metric: str, max_drop: float = 0.0) -> None:
        """Check that a metric has dropped by at most `max_drop`, by the rule of a gate.

        It passes only if the whole 95 % interval of the paired drop lies within `max_drop`; an inconclusive result
        does not pass.

        Raises:
            Regression: the metric dropped by more, or the result is inconclusive; it is an AssertionError.
        """
        policy = GatePolicy(rules=(MetricRule(metric=metric, max_drop=max_drop),))
        checked = compare(self._comparison.baseline, self._comparison.other, policy=policy)
        unmet = [check for check in checked.checks if check.status != "passed"]
        if unmet:
            reasons = " ".join(f"{check.rule} {check.status}: {check.message}" for check in unmet)
            is_inconclusive = all(check.status == "inconclusive" for check in unmet)
            runs = f"{self._comparison.other.name} against {self._comparison.baseline.name}"
            cure = (
                "Ask more samples, or allow a larger drop." if is_inconclusive else "Look at the answers that differ."
            )
            raise Regression(f"{runs}: {reasons}", cure=cure)
