"""Ask the service of this container whether it is well; the exit code is 1 if it is not.

Every service answers `/healthz` at the port of its metrics, and the API `/api/v1/ready`, with its database.
"""

import os
import sys
import urllib.request

TIMEOUT_S = 4


def main() -> int:
    """Ask each address of this container's service."""
    urls = []
    if metrics := int(os.environ.get("VLMHB_METRICS_PORT") or 0):
        urls.append(f"http://127.0.0.1:{metrics}/healthz")
    if "VLMHB_API_HOST" in os.environ:
        scheme = "https" if os.environ.get("VLMHB_API_TLS_CERT") else "http"
        urls.append(f"{scheme}://127.0.0.1:{os.environ.get('VLMHB_API_PORT') or 8760}/api/v1/ready")
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    for url in urls:
        try:
            opener.open(url, timeout=TIMEOUT_S).close()
        except OSError as error:
            print(f"{url}: {error}")
            return 1
    return 0


sys.exit(main())
