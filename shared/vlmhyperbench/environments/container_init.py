"""The first process of a container: starts the engine that stdin describes, and ends when stdin closes.

It is run by path with the interpreter of the image, in which nothing of the platform is installed: standard library
only, and no syntax newer than Python 3.9. Its stdin closes when the launcher dies, however it dies; then the engine is
killed, and with this process everything else in the container.
"""

import json
import os
import signal
import subprocess
import sys
import threading


def main() -> int:
    """Start the engine of the line on stdin, wait for its end, and return its status as a shell does."""
    line = sys.stdin.buffer.readline()
    if not line:
        return 1
    order = json.loads(line)
    try:
        engine = subprocess.Popen(order["argv"], env={**os.environ, **order["env"]}, stdin=subprocess.DEVNULL)
    except OSError as error:
        print(f"Cannot start {order['argv'][0]} in the container: {error}", file=sys.stderr, flush=True)
        return 127
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: os.kill(engine.pid, number))
    threading.Thread(target=_end_with_stdin, args=(engine.pid,), daemon=True).start()
    while True:  # the first process of a container also buries those whose parents have ended
        ended, status = os.wait()
        if ended == engine.pid:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def _end_with_stdin(engine: int) -> None:
    while os.read(0, 65536):
        pass  # what is said on stdin means nothing; its end does
    os.kill(engine, signal.SIGKILL)
    os._exit(128 + signal.SIGKILL)


if __name__ == "__main__":
    os._exit(main())  # a thread waits for stdin, which the interpreter would wait for
