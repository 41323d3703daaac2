"""Ask the service of this container whether it is well; the exit code is 1 if it is not.

The API says at `/api/v1/ready` whether it accepts runs, every other service at `/healthz`, at the port of its metrics,
whether its event loop turns.
"""

import os
import ssl
import sys
import urllib.request

TIMEOUT_S = 4


def url() -> str:
    """Return the address at which this container's service tells."""
    if "VLMHB_API_HOST" not in os.environ:
        return f"http://127.0.0.1:{os.environ['VLMHB_METRICS_PORT']}/healthz"
    scheme = "https" if os.environ.get("VLMHB_API_TLS_CERT") else "http"
    return f"{scheme}://127.0.0.1:{os.environ.get('VLMHB_API_PORT') or 8760}/api/v1/ready"


def main() -> int:
    """Ask; the certificate of the API is not verified, because it names another address than loopback."""
    handlers = (
        urllib.request.ProxyHandler({}),
        urllib.request.HTTPSHandler(context=ssl._create_unverified_context()),  # noqa: S323, SLF001 - loopback alone
    )
    try:
        urllib.request.build_opener(*handlers).open(url(), timeout=TIMEOUT_S).close()
    except OSError as error:
        print(f"{url()}: {error}")
        return 1
    return 0


sys.exit(main())
