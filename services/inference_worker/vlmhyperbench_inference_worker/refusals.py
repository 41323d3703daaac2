"""The error of a run whose target refuses every request, with the server's own words."""

from __future__ import annotations

from dataclasses import asdict
from urllib.parse import urlsplit

from vlmhyperbench.db import failures
from vlmhyperbench.domain.causes import FailedRequest, find_configuration_error
from vlmhyperbench.domain.failure_groups import FailureGroup
from vlmhyperbench.errors import TargetRefused
from vlmhyperbench.worker.claims import ClaimedJob
from vlmhyperbench.worker.gateway import NAME_THE_KEY
from vlmhyperbench_inference_worker.serving import Serving


def refused(failed: FailedRequest, serving: Serving, *, has_rows: bool = False) -> TargetRefused:
    """Return the error of a refusal; its code is `endpoint_` and the name of the rule.

    Args:
        failed: the refused request.
        serving: the target that refused it.
        has_rows: rows of the run hold the refusal, so the error does not repeat it.
    """
    rule, measured = failed.rule, serving.measured
    is_keyless = rule.name == "key_refused" and measured.through == "engine" and not serving.shows_a_secret
    means = "the endpoint requires a key, and the target names none" if is_keyless else rule.means
    host = urlsplit(serving.status.engine_url or measured.url).netloc
    answer = FailureGroup(
        message=failed.message,
        code=failed.word,
        http_status=failed.http_status,
        rule=rule.name,
        cause="configuration",
        count=1,
    )
    return TargetRefused(
        f"{host} refuses the requests: {means}. {failed.statement}",
        cure=NAME_THE_KEY if is_keyless else rule.cure,
        code=f"endpoint_{rule.name}",
        answer=None if has_rows else asdict(answer),
    )


async def check_refusals(job: ClaimedJob, serving: Serving, *, phase: int, is_last: bool) -> None:
    """Check all rows of a phase once they are there: those of a misconfigured run say nothing about the model.

    Args:
        job: the claim, which has written its rows.
        serving: what was asked.
        phase: the phase whose rows are counted.
        is_last: no other job adds rows to the phase; otherwise the phase is checked only if no row is missing.

    Raises:
        TargetRefused: more requests got a refusal that is caused by the configuration than were answered.
    """
    async with job.runtime.database.transaction() as session:
        counts = await failures.of_run(session, job.run_id, phase=phase)
        if not counts.failures or not (is_last or counts.done >= await failures.planned(session, job.run_id, phase)):
            return
    refusal = find_configuration_error([(group.failed, group.count) for group in counts.failures], ok=counts.ok)
    if refusal is not None:
        raise refused(refusal, serving, has_rows=True)
