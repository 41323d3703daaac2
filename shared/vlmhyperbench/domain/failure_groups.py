"""What requests failed with, counted: those whose messages differ in numbers only are one group."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from vlmhyperbench.domain.causes import SERVER_ERROR, Cause, FailedRequest, rule_of, word_of
from vlmhyperbench.domain.failures import Failure

_NUMBERS = re.compile(r"\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureGroup:
    """Requests that failed alike."""

    message: str
    """What the server said to one of them, bounded, without control characters."""
    code: str
    """The server's own code or type of the error; else the load generator's, such as `timeout`."""
    http_status: int | None
    rule: str
    """Row of the table of causes."""
    cause: Cause
    count: int

    @property
    def is_of_model(self) -> bool:
        """Whether it counts against the model."""
        return self.cause in {"sample", "model"}

    @property
    def in_words(self) -> str:
        """One line: how often, what, and whether it counts."""
        status = f"HTTP {self.http_status}, {self.code}" if self.http_status else self.code
        against = "counts against the model" if self.is_of_model else f"{self.cause}, does not count against the model"
        return f"{self.count} x {status} ({against}): {self.message or 'no word'}"


def group_failures(failures: Iterable[tuple[FailedRequest, Failure, int]], *, ok: int) -> list[FailureGroup]:
    """Count failures by what was said, the most frequent first.

    Args:
        failures: what failed, what is stored of it, and how often.
        ok: how many requests were answered, which decides where a refusal can mean either.
    """
    found = list(failures)
    often = Counter[str]()
    for failed, _, count in found:
        often[rule_of(failed).name] += count
    groups: dict[tuple[object, ...], FailureGroup] = {}
    for failed, failure, count in found:
        rule = rule_of(failed)
        cause = rule.cause_where(ok / (ok + often[rule.name]))
        group = FailureGroup(
            message=failed.message,
            code=word_of(failed),
            http_status=failed.http_status,
            rule=rule.name,
            # What another tool recorded is told as its file says it.
            cause=failure if rule is SERVER_ERROR else cause,
            count=count,
        )
        key = (group.code, group.http_status, group.cause, _NUMBERS.sub("#", group.message))
        known = groups.get(key)
        groups[key] = group if known is None else replace(known, count=known.count + count)
    return sorted(groups.values(), key=lambda group: -group.count)
