"""Which secrets the target of a job may know, and what they are now."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from vlmhyperbench.domain.judging import is_judge, judging_of
from vlmhyperbench.domain.specs import EndpointTarget, ImportTarget, Target
from vlmhyperbench.secret_files import read_secrets
from vlmhyperbench.worker.claims import ClaimedJob
from vlmhyperbench_inference_worker.work import Work
from vlmhyperbench_sdk.gateway import KEY_PARAM, header_secrets


async def read_keys(job: ClaimedJob, work: Work) -> Mapping[str, str]:
    """Read the secrets of a job's target; every job reads them, for names and files may have changed since it loaded.

    Raises:
        NotFound: one is not stored on this machine.
        InvalidInput: the file of one is readable for others.
    """
    return await asyncio.to_thread(read_secrets, job.settings.secrets_dir, secret_names(work))


def secret_names(work: Work) -> list[str]:
    """Name what the target of a job may know: the key that it names, and the run's secrets.

    An endpoint that judges is given no more than the key that it names. A secret that a judge names is that judge's:
    another endpoint is given it only where it names it as well.
    """
    spec = work.spec
    own = _named_by(spec.target)
    if work.asks_for_metric and isinstance(spec.target, EndpointTarget):
        return own
    judges = [judging_of(metric).target for metric in spec.metrics if is_judge(metric)]
    is_remote = isinstance(spec.target, EndpointTarget)
    theirs = {key for judge in judges for key in _named_by(judge)} if is_remote else set[str]()
    return list(dict.fromkeys([*(name for name in spec.secrets if name not in theirs), *own]))


def _named_by(target: Target) -> list[str]:
    if isinstance(target, ImportTarget):
        return []
    key = target.engine_params.get(KEY_PARAM)
    return [*([key] if isinstance(key, str) else []), *header_secrets(target.engine_params).values()]
