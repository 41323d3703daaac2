"""The target of a job: what is refused before anything is loaded."""

from __future__ import annotations

from typing import cast

import pytest

from tests.shared.reports.builders import run_spec
from vlmhyperbench.domain.specs import EndpointTarget, SourceRef
from vlmhyperbench.errors import Conflict
from vlmhyperbench.worker.claims import ClaimedJob
from vlmhyperbench_inference_worker import loading
from vlmhyperbench_inference_worker.work import Work

pytestmark = pytest.mark.anyio


async def test_an_adapter_whose_code_was_edited_since_the_run_was_submitted_is_a_conflict() -> None:
    edited = SourceRef(module="vlmhyperbench_openai.adapter", sha256="0" * 64)
    target = EndpointTarget(
        endpoint="http://127.0.0.1:1", model_name="m", backend_class="vlmhyperbench_openai.adapter:A", adapter=edited
    )
    work = Work(spec=run_spec(target=target), samples=[], missing=[])
    with pytest.raises(Conflict) as refused:
        await loading._wanted(cast("ClaimedJob", None), work)
    assert refused.value.code == "plugin_version"
