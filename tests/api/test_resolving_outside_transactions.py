"""While a submission resolves names and reads files, it has no open transaction."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import TypeVar

import psycopg
import pytest
from sqlalchemy import text

from tests.api.test_answers import CONTENT
from vlmhyperbench.errors import Conflict
from vlmhyperbench.registry.loading import Catalogue, read_catalogue
from vlmhyperbench.registry.schemas import Entry
from vlmhyperbench.runtime import Runtime, open_runtime
from vlmhyperbench.settings import Settings
from vlmhyperbench.wire.answers import RunImport
from vlmhyperbench.wire.runs import ExperimentCreate, RunCreate, RunDetail, RunRerun, RunRescore
from vlmhyperbench_api.answer_files import AnswerFiles
from vlmhyperbench_api.security import Principal
from vlmhyperbench_api.submission import (
    ChildSubmission,
    Submission,
    submit_experiment,
    submit_import,
    submit_rerun,
    submit_rescoring,
    submit_run,
)

pytestmark = pytest.mark.anyio

NAME = "submits"
PRINCIPAL = Principal(project_id="default", name="tester", scopes=frozenset())
E = TypeVar("E", bound=Entry)


class Watching(Catalogue):
    """A catalogue that records the number of open transactions whenever a name is looked up."""

    database_url: str
    open_transactions: list[int]

    def look_up(self, entries: Mapping[str, E], kind: str, name: str) -> E:
        with psycopg.connect(Watching.database_url) as connection:
            statement = "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s AND xact_start IS NOT NULL"
            result = connection.execute(statement, (NAME,)).fetchone()
        assert result is not None
        Watching.open_transactions.append(result[0])
        return super().look_up(entries, kind, name)


@pytest.fixture
def catalogue(database_url: str) -> Watching:
    result = read_catalogue([Path(__file__).parents[2] / "registries"])
    Watching.database_url = database_url.replace("postgresql+psycopg", "postgresql")
    Watching.open_transactions = []
    return Watching(**{field.name: getattr(result, field.name) for field in fields(Catalogue)})


@pytest.fixture
async def runtime(settings: Settings) -> AsyncIterator[Runtime]:
    async with open_runtime(settings, name=NAME) as opened:
        yield opened


async def test_a_run_and_an_experiment(runtime: Runtime, catalogue: Watching) -> None:
    body = RunCreate(run="simulated-instant")
    await submit_run(Submission(body=body, principal=PRINCIPAL, key="run", catalogue=catalogue, runtime=runtime))
    assert Watching.open_transactions
    several = ExperimentCreate(experiment="demo")
    await submit_experiment(
        Submission(body=several, principal=PRINCIPAL, key="both", catalogue=catalogue, runtime=runtime)
    )
    assert set(Watching.open_transactions) == {0}


async def test_an_import_a_rerun_and_a_rescoring(runtime: Runtime, catalogue: Watching, tmp_path: Path) -> None:
    answer_files = AnswerFiles(runtime.storage)
    (tmp_path / "answers.jsonl").write_bytes(CONTENT)
    result = await answer_files.keep("default", tmp_path / "answers.jsonl", sha256=hashlib.sha256(CONTENT).hexdigest())
    body = RunImport(answers=result.sha256, metrics=("anls",))
    parent = await submit_import(
        Submission(body=body, principal=PRINCIPAL, key=None, catalogue=catalogue, runtime=runtime), answer_files
    )
    await _end(runtime, parent)
    again = RunRerun(run="simulated-instant")
    await submit_rerun(
        ChildSubmission(
            body=again, principal=PRINCIPAL, key=None, catalogue=catalogue, runtime=runtime, parent_id=parent.id
        )
    )
    anew = RunRescore(metrics=("exact_match",))
    with pytest.raises(Conflict) as refused:
        await submit_rescoring(
            ChildSubmission(
                body=anew, principal=PRINCIPAL, key=None, catalogue=catalogue, runtime=runtime, parent_id=parent.id
            )
        )
    assert refused.value.code == "no_answers"
    assert len(Watching.open_transactions) >= 3
    assert set(Watching.open_transactions) == {0}


async def test_a_known_key_is_answered_without_resolving_names(runtime: Runtime, catalogue: Watching) -> None:
    body = RunCreate(run="simulated-instant")
    asked = Submission(body=body, principal=PRINCIPAL, key="again", catalogue=catalogue, runtime=runtime)
    first = await submit_run(asked)
    Watching.open_transactions.clear()
    assert (await submit_run(asked)).id == first.id
    assert Watching.open_transactions == []


async def _end(runtime: Runtime, run: RunDetail) -> None:
    async with runtime.database.transaction() as session:
        statement = "UPDATE run SET state = 'SUCCEEDED', finished_at = now() WHERE id = :id"
        await session.execute(text(statement), {"id": run.id})
