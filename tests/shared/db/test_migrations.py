from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields

import pytest
from sqlalchemy import create_engine, inspect

from vlmhyperbench.db import migrations, tables, views
from vlmhyperbench.errors import Unavailable


def _tables(url: str) -> set[str]:
    engine = create_engine(url)
    try:
        return {name for name in inspect(engine).get_table_names() if not name.startswith("fact_part_")}
    finally:
        engine.dispose()


def test_upgrade_creates_all_tables_and_downgrade_drops_them(empty_database_url: str) -> None:
    assert migrations.current(empty_database_url) is None
    migrations.upgrade(empty_database_url)
    assert _tables(empty_database_url) == {*tables.metadata.tables, "alembic_version"}
    migrations.downgrade(empty_database_url)
    assert _tables(empty_database_url) == {"alembic_version"}
    migrations.upgrade(empty_database_url)
    assert migrations.current(empty_database_url) == "0032"


def test_the_migrated_schema_equals_the_tables_in_code(empty_database_url: str) -> None:
    migrations.upgrade(empty_database_url)
    migrations.check(empty_database_url)


def test_two_stacks_that_start_at_once_migrate_one_after_the_other(empty_database_url: str) -> None:
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(migrations.upgrade, [empty_database_url] * 4))
    migrations.check(empty_database_url)


def test_a_database_that_does_not_exist_is_unavailable() -> None:
    with pytest.raises(Unavailable):
        migrations.upgrade("postgresql+psycopg://nobody@/nothing?host=/nonexistent")


OTHERS = ("View", "ReportFileView", "CurrentJobView")
"""Views of no table, and of two or more."""


@pytest.mark.parametrize("name", [name for name in views.__all__ if name.endswith("View") and name not in OTHERS])
def test_a_view_has_the_columns_of_its_table(name: str) -> None:
    table = getattr(tables, name.removesuffix("View") + "Row")
    assert {field.name for field in fields(getattr(views, name))} == set(table.__table__.columns.keys())
