"""Run as a forked service: say what one sees, then end with a status, or wait to be ended."""

from __future__ import annotations

import os
import signal
import sys

if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
    print(os.environ.get("PROBE"), os.getsid(0) == os.getpid(), sys.stdin.read() == "", "sqlalchemy" in sys.modules)
    if os.environ["PROBE"] == "wait":
        print("waiting", flush=True)
        while True:
            signal.pause()
    sys.exit(int(os.environ["PROBE"]))
