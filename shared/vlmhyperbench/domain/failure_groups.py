"""Failed requests grouped by error; errors whose messages differ only in numbers are one group."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from vlmhyperbench.domain.causes import SERVER_ERROR, Cause, FailedRequest
from vlmhyperbench.domain.failures import Failure

_NUMBERS = re.compile(r"\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureGroup:
    """Failed requests with the same error."""

    message: str
    """The server's message for one of them, bounded, without control characters."""
    code: str
    """The server's own code or type of the error; else the load generator's code, such as `timeout`."""
    http_status: int | None
    rule: str
    """Name of the rule in the table of causes."""
    cause: Cause
    count: int

    @property
    def is_of_model(self) -> bool:
        """Whether it counts against the model."""
        return self.cause in {"sample", "model"}

    @property
    def in_words(self) -> str:
        """One line with the count, the error, and whether it counts against the model."""
        status = f"HTTP {self.http_status}, {self.code}" if self.http_status else self.code
        against = "counts against the model" if self.is_of_model else f"{self.cause}, does not count against the model"
        return f"{self.count} x {status} ({against}): {self.message or 'no message'}"


def group_failures(failures: Iterable[tuple[FailedRequest, Failure, int]], *, ok: int) -> list[FailureGroup]:
    """Group failures by error, most frequent first.

    Args:
        failures: failed requests, their stored kind of failure, and the number of requests of each.
        ok: number of answered requests, on which the cause of a refusal can depend.
    """
    failed_requests = list(failures)
    counts = Counter[str]()
    for failed, _, count in failed_requests:
        counts[failed.rule.name] += count
    groups: dict[tuple[object, ...], FailureGroup] = {}
    for failed, failure, count in failed_requests:
        rule = failed.rule
        cause = rule.cause_where(ok / (ok + counts[rule.name]))
        group = FailureGroup(
            message=failed.message,
            code=failed.word,
            http_status=failed.http_status,
            rule=rule.name,
            # An error that no rule matches keeps its stored kind, which an imported file may have given.
            cause=failure if rule is SERVER_ERROR else cause,
            count=count,
        )
        key = (group.code, group.http_status, group.cause, _NUMBERS.sub("#", group.message))
        known = groups.get(key)
        groups[key] = group if known is None else replace(known, count=known.count + count)
    return sorted(groups.values(), key=lambda group: -group.count)
