"""Bodies of saved views of the dashboard's pages."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import AfterValidator, Field

from vlmhyperbench.domain.base import Refused
from vlmhyperbench.domain.visible import HIDDEN
from vlmhyperbench.wire.base import Input, Output


def _query(text: str) -> str:
    if HIDDEN.search(text) or text.startswith("?"):
        raise Refused(
            "it is the query of an address without `?` and without characters that are not shown", cure="Correct it."
        )
    return text


class ViewSave(Input):
    """The filters of a view."""

    search: Annotated[str, Field(max_length=2000), AfterValidator(_query)]
    """Query of the page's address, without `?`."""


class SavedView(Output):
    """The filters of a page under a name."""

    page: str
    name: str
    search: str
    saved_at: datetime
