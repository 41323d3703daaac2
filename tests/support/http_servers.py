"""An HTTP server of a test that prints nothing about clients that have left."""

from __future__ import annotations

import sys
from http.server import ThreadingHTTPServer


class QuietServer(ThreadingHTTPServer):
    """A server whose clients may leave before their answer: what it printed then would be in another test's output."""

    def handle_error(self, request: object, client_address: object) -> None:
        """Print every error but that of a connection that the client has closed."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)
