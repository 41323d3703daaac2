"""The accounts of workers that join, one in Postgres and one in Redis for each join token: made, kept, and ended."""
