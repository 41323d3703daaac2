"""Dependencies of routes: the runtime, the catalogue, validated parameters and page cursors."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import AsyncIterator
from typing import Annotated, TypeVar
from uuid import UUID

from fastapi import Depends, Query
from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, ValidationError
from starlette.requests import HTTPConnection

from vlmhyperbench.db.engine import AsyncSession
from vlmhyperbench.db.queries import PageKey
from vlmhyperbench.domain.base import Refused
from vlmhyperbench.errors import InvalidInput
from vlmhyperbench.runtime import Runtime
from vlmhyperbench_api.answer_files import AnswerFiles
from vlmhyperbench_api.attempts import Attempts
from vlmhyperbench_api.catalogue import Registries
from vlmhyperbench_api.sample_tables import SampleTables
from vlmhyperbench_api.target_names import TargetNames
from vlmhyperbench_api.thumbnails import Thumbnails

Key = TypeVar("Key", bound=BaseModel)


def _digits(text: object) -> object:
    """Accept ASCII digits only: Pydantic would also read `1_0`, `+10` and digits of other scripts as 10."""
    if isinstance(text, str) and not re.fullmatch(r"-?[0-9]{1,19}", text):
        raise Refused("Input should be a whole number", cure="Write a whole number in digits.")
    return text


WholeNumber = Annotated[int, BeforeValidator(_digits)]
"""A number in a query."""
PageLimit = Annotated[WholeNumber, Query(ge=1, le=500, description="Rows of a page.")]
CursorText = Annotated[
    str | None, Query(max_length=2000, pattern=r"^[A-Za-z0-9_=-]*$", description="`next` of the page before.")
]


def any_case(*values: str) -> BeforeValidator:
    """Accept these words in any case, so that a value can be written as in responses or in lower case."""
    known = {value.casefold(): value for value in values}
    return BeforeValidator(lambda given: known.get(given.casefold(), given) if isinstance(given, str) else given)


def runtime_of(connection: HTTPConnection) -> Runtime:
    """Return the application's runtime."""
    runtime: Runtime = connection.app.state.runtime
    return runtime


def registries_of(connection: HTTPConnection) -> Registries:
    """Return the application's registry files."""
    registries: Registries = connection.app.state.registries
    return registries


def answer_files_of(connection: HTTPConnection) -> AnswerFiles:
    """Return the uploaded files of answers."""
    answer_files: AnswerFiles = connection.app.state.answer_files
    return answer_files


def attempts_of(connection: HTTPConnection) -> Attempts:
    """Return the failed attempts to join."""
    attempts: Attempts = connection.app.state.attempts
    return attempts


def sample_tables_of(connection: HTTPConnection) -> SampleTables:
    """Return the tables of samples that the process keeps."""
    sample_tables: SampleTables = connection.app.state.sample_tables
    return sample_tables


def thumbnails_of(connection: HTTPConnection) -> Thumbnails:
    """Return the thumbnails that the process keeps."""
    thumbnails: Thumbnails = connection.app.state.thumbnails
    return thumbnails


def target_names_of(connection: HTTPConnection) -> TargetNames:
    """Return the names of targets that the process has read."""
    target_names: TargetNames = connection.app.state.target_names
    return target_names


async def _session(runtime: Annotated[Runtime, Depends(runtime_of)]) -> AsyncIterator[AsyncSession]:
    async with runtime.database.transaction() as session:
        yield session


RuntimeOf = Annotated[Runtime, Depends(runtime_of)]
RegistriesOf = Annotated[Registries, Depends(registries_of)]
AttemptsOf = Annotated[Attempts, Depends(attempts_of)]
SampleTablesOf = Annotated[SampleTables, Depends(sample_tables_of)]
TargetNamesOf = Annotated[TargetNames, Depends(target_names_of)]
ThumbnailsOf = Annotated[Thumbnails, Depends(thumbnails_of)]
AnswerFilesOf = Annotated[AnswerFiles, Depends(answer_files_of)]
Session = Annotated[AsyncSession, Depends(_session, scope="function")]
"""One transaction for the route's function, which ends before the response is sent."""


def write_cursor(key: BaseModel) -> str:
    """Encode the position after which the next page begins."""
    return base64.urlsafe_b64encode(key.model_dump_json().encode()).decode()


def read_cursor(text: str | None, model: type[Key]) -> Key | None:
    """Decode a cursor; None for the first page.

    Raises:
        InvalidInput: the text is not a cursor of this API.
    """
    if not text:
        return None
    try:
        return model.model_validate_json(base64.b64decode(text, altchars=b"-_", validate=True))
    except (binascii.Error, ValidationError) as error:
        raise InvalidInput("The cursor is not one that this list gave.", cure="Begin without a cursor.") from error


class After(BaseModel):
    """Position of the last row of a page that is listed newest first."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    at: AwareDatetime
    id: UUID

    @property
    def key(self) -> PageKey:
        return PageKey(self.at, self.id)
