"""Run a statement over the facts in Postgres and, in the same way, over rows of facts that are given with it."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import TextClause, text

_GIVEN = """WITH fact AS NOT MATERIALIZED (
    SELECT * FROM public.fact
    UNION ALL
    SELECT * FROM json_populate_recordset(NULL::public.fact, CAST(:given AS json))
), """


def with_given(statement: str, values: Mapping[str, object], given: str | None) -> tuple[TextClause, dict[str, object]]:
    """Return a statement that begins with WITH, and its values, such that `fact` also has the given rows.

    The rows of runs that are not hot are in files. A page of them is read by the very statement that reads those in
    Postgres, so that no second implementation can differ from it.

    Args:
        statement: The statement.
        values: Values of its parameters.
        given: Rows as a JSON list of objects with the columns of `fact`; None: there are none.
    """
    if given is None:
        return text(statement), dict(values)
    return text(statement.strip().replace("WITH ", _GIVEN, 1)), {**values, "given": given}
