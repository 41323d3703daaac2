"""The address at which the embedded stack is reached from other machines, and its three ports."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from typing import Final, Self
from urllib.parse import urlsplit

from vlmhyperbench.errors import InvalidInput

VARIABLE: Final = "VLMHB_LISTEN"
DEFAULT_PORT: Final = 8770
_ANY: Final = frozenset({"0.0.0.0", "::", "*"})  # noqa: S104 - these are refused


@dataclass(frozen=True, slots=True, kw_only=True)
class Listening:
    """Where other machines reach the API, Postgres and Redis, all by TLS."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `ADDRESS` or `ADDRESS:PORT`.

        Raises:
            InvalidInput: the address is not one by which other machines reach this one.
        """
        cure = "Give the address of this machine by which the others reach it, for example --listen 10.0.0.5."
        try:
            parts = urlsplit(f"//{text}")
            host, port = parts.hostname or "", parts.port or DEFAULT_PORT
        except ValueError as error:
            raise InvalidInput(f"--listen {text!r} is no address: {error}.", cure=cure, code="usage") from error
        if not host or parts.path or parts.username is not None or not 1 <= port <= 65533:
            raise InvalidInput(f"--listen {text!r} is no address.", cure=cure, code="usage")
        if host in _ANY:
            raise InvalidInput(f"--listen {text} names no machine, but certificates do.", cure=cure, code="usage")
        try:
            socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise InvalidInput(f"--listen {text!r} is not known: {error.strerror}.", cure=cure, code="usage") from error
        return cls(host=host, port=port)

    @classmethod
    def of_environment(cls) -> Self:
        """Read what `env` has passed on."""
        return cls.parse(os.environ[VARIABLE])

    @property
    def env(self) -> dict[str, str]:
        """Variables that pass it on to a child."""
        return {VARIABLE: f"{self._bracketed}:{self.port}"}

    @property
    def url(self) -> str:
        """URL of the API."""
        return f"https://{self._bracketed}:{self.port}"

    @property
    def port_cure(self) -> str:
        """What helps where one of the three ports cannot be used."""
        return (
            f"Stop what uses it, or give the address of this machine with the first of three free ports: "
            f"--listen {self._bracketed}:PORT; `ip address` lists the addresses."
        )

    @property
    def postgres_port(self) -> int:
        return self.port + 1

    @property
    def redis_port(self) -> int:
        return self.port + 2

    def postgres_url(self, database: str) -> str:
        """Return the URL of the database for workers of other machines, without an account."""
        return f"postgresql+psycopg://{self._bracketed}:{self.postgres_port}/{database}?sslmode=verify-full"

    def redis_url(self) -> str:
        """Return the URL of Redis for workers of other machines, without an account."""
        return f"rediss://{self._bracketed}:{self.redis_port}/0"

    @property
    def _bracketed(self) -> str:
        return f"[{self.host}]" if ":" in self.host else self.host
