"""Run a simulated engine in its own process, for tests and benchmarks that must not share its event loop."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import urllib.request
from typing import IO, cast

from vlmhyperbench_sdk.errors import Unavailable
from vlmhyperbench_simulated.simulation import Simulation


class SimulatedProcess:
    """`with SimulatedProcess(Simulation(…)) as engine:` serves at `engine.url` until the block ends."""

    def __init__(
        self,
        simulation: Simulation,
        *,
        unix_socket: str | None = None,
        api_key: str | None = None,
        is_realtime: bool = False,
    ) -> None:
        self._params = json.dumps(dataclasses.asdict(simulation))
        self._unix_socket = unix_socket
        self._api_key = api_key
        self._asks_realtime = is_realtime
        self.is_realtime = False
        """Whether the system granted it real-time scheduling, which needs a privilege."""
        self._process: subprocess.Popen[str] | None = None
        self.pid = 0
        """Id of the process, once it runs."""
        self.port = 0

    @property
    def url(self) -> str:
        """Base URL without `/v1`."""
        return f"http://127.0.0.1:{self.port}"

    def records(self) -> list[dict[str, object]]:
        """Fetch the records, in order of arrival; needs `record=True` and TCP.

        Raises:
            Unavailable: the oldest records were dropped, because there were too many.
        """
        document = json.loads(self._ask("GET"))
        if document["dropped"]:
            raise Unavailable(f"The simulated engine dropped its {document['dropped']} oldest records.")
        return cast("list[dict[str, object]]", document["records"])

    def clear_records(self) -> None:
        """Drop all records."""
        self._ask("DELETE")

    def _ask(self, method: str) -> bytes:
        request = urllib.request.Request(f"{self.url}/record", method=method)  # noqa: S310 -- the server of this process, on loopback
        with urllib.request.urlopen(request, timeout=60) as response:  # noqa: S310 -- the same server
            return cast("bytes", response.read())

    def __enter__(self) -> SimulatedProcess:
        argv = [sys.executable, "-m", "vlmhyperbench_simulated", "--params", self._params]
        if self._unix_socket is not None:
            argv += ["--unix-socket", self._unix_socket]
        if self._asks_realtime:
            argv += ["--realtime"]
        env = dict(os.environ)
        if self._api_key is not None:
            env["SIMULATED_API_KEY"] = self._api_key
        self._process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=env)
        self.pid = self._process.pid
        line = cast("IO[str]", self._process.stdout).readline()
        if not line:
            raise Unavailable(f"The simulated engine ended with status {self._process.wait()}.")
        listening = json.loads(line)
        self.port, self.is_realtime = int(listening["port"]), bool(listening["realtime"])
        return self

    def __exit__(self, *_: object) -> None:
        process = self._process
        if process is None:
            return
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()
