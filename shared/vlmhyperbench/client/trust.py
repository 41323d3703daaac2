"""Which certificates are trusted: those that the system trusts, or those of one authority in a file."""

from __future__ import annotations

import ssl
from pathlib import Path

from vlmhyperbench.client.connection import Connection
from vlmhyperbench.errors import InvalidInput


def trusting(ca_file: str | Path | None) -> ssl.SSLContext | bool:
    """Return what a client of HTTPS verifies servers by.

    Raises:
        InvalidInput: the file is missing or contains no certificate.
    """
    if ca_file is None:
        return True
    try:
        return ssl.create_default_context(cafile=str(ca_file))
    except (OSError, ssl.SSLError) as error:
        reason = error.strerror if isinstance(error, FileNotFoundError | PermissionError) else "it has no certificate"
        raise InvalidInput(
            f"The certificate authority {ca_file} cannot be used: {reason}.",
            cure="Copy the file ca.pem of the server, and name it by --ca-file or VLMHB_API_CA_FILE.",
            code="ca_file",
        ) from error


def trusting_live(connection: Connection) -> ssl.SSLContext | None:
    """Return what the live feed verifies its server by; None where it needs no certificate, or one of the system's.

    Raises:
        InvalidInput: the file of the authority is missing or contains no certificate.
    """
    trusted = trusting(connection.ca_file)
    return trusted if isinstance(trusted, ssl.SSLContext) and connection.live_url.startswith("wss:") else None
