"""Postgres: tables, repositories and migrations. Repositories never commit; the edge does."""
