"""A real S3 server on loopback (rclone), whose connections can be cut: folders are buckets, files are objects."""

from __future__ import annotations

import socket
import socketserver
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.processes import PATIENCE_S
from vlmhyperbench.addresses import S3Access
from vlmhyperbench.local.certificates import Certificates

KEY, SECRET = "ACCESSKEYID12345", "secretsecretsecret1"
RCLONE = Path(sys.executable).parent / "rclone"


@dataclass
class LoopbackBucket:
    """A server and the way to it."""

    root: Path
    url: str = ""
    cut_after: int | None = None
    """Bytes after which the next long answer is cut, once."""
    cut_upload_after: int | None = None
    """Bytes after which the next long request is cut, once."""
    holds_after: int | None = None
    """Bytes after which nothing is sent until `release`."""
    release: threading.Event = field(default_factory=threading.Event)
    refuses_every: int | None = None
    """Of this many requests for the same object the first is answered 503; each has a connection of its own then."""
    refused: int = 0
    """Requests that were refused so."""
    refuses_uploads_of: bytes | None = None
    """While this is set, every upload is answered 503 whose path contains it; only together with `refuses_every`."""
    refused_uploads: int = 0
    sent: int = 0
    """Bytes that the server has sent."""
    received: int = 0
    """Bytes that it was sent."""
    _asked: Counter[bytes] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def put(self, prefix: str, files: Mapping[str, bytes]) -> str:
        """Write objects below a prefix; returns its URL."""
        folder = self.root / prefix
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            (folder / name).write_bytes(content)
        return f"s3://{prefix}"

    def options(self, **changed: str) -> dict[str, str]:
        """Return the arguments of boto3's client."""
        keys = {"aws_access_key_id": KEY, "aws_secret_access_key": SECRET}
        return {"endpoint_url": self.url, "region_name": "us-east-1", **keys, **changed}

    def access(self, **changed: str) -> S3Access:
        """Return the settings of a storage in this server."""
        keys = {"access_key_id": KEY, "secret_access_key": SECRET}
        return S3Access.model_validate({"endpoint_url": self.url, "region": "us-east-1", **keys, **changed})

    def refuses(self, head: bytes) -> bool:
        """Count a request by what it asks for, whoever else asks at that time, and return whether it is refused."""
        if self.refuses_every is None:
            return False
        with self._lock:
            what = head.partition(b"\r\n")[0].partition(b"?")[0]
            if self.refuses_uploads_of is not None and what.startswith(b"PUT ") and self.refuses_uploads_of in what:
                self.refused_uploads += 1
                return True
            is_refused = self._asked[what] % self.refuses_every == 0
            self._asked[what] += 1
            self.refused += is_refused
        return is_refused

    def store_secrets(self, folder: Path, **changed: str) -> None:
        """Store endpoint and keys as secrets of a machine."""
        secrets = {
            "AWS_ENDPOINT_URL_S3": self.url,
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
        }
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name, value in (secrets | changed).items():
            (folder / name).write_text(value)
            (folder / name).chmod(0o600)

    def may_send(self, count: int) -> bool:
        """Count bytes, and return whether they reach the client."""
        if self.holds_after is not None and self.sent >= self.holds_after:
            self.release.wait(PATIENCE_S)
        with self._lock:
            self.sent += count
            if self.cut_after is None or self.sent <= self.cut_after:
                return True
            self.cut_after = None
            return False

    def may_receive(self, count: int) -> bool:
        """Count bytes of a client, and return whether they reach the server."""
        with self._lock:
            self.received += count
            if self.cut_upload_after is None or self.received <= self.cut_upload_after:
                return True
            self.cut_upload_after = None
            return False


@contextmanager
def serve_bucket(
    root: Path, address: str = "127.0.0.1", *, is_watched: bool = True, certificates: Certificates | None = None
) -> Iterator[LoopbackBucket]:
    """Serve the folder at an address of this machine until the block ends, by TLS if there are certificates.

    A watched folder may be changed beside the server, which then reads it anew for every request, however many files
    it holds; a folder that is written by requests only is not watched.
    """
    root.mkdir(parents=True, exist_ok=True)
    bucket = LoopbackBucket(root)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [str(RCLONE), "serve", "s3", str(root), "--addr", f"127.0.0.1:{port}", "--auth-key", f"{KEY},{SECRET}"]
    if certificates is not None:
        command += ["--cert", str(certificates.cert_file), "--key", str(certificates.key_file)]
    with (
        subprocess.Popen(
            [*command, "--config", "", *(["--dir-cache-time", "0"] if is_watched else [])],
            stderr=subprocess.PIPE,
            text=True,
        ) as server,
        socketserver.ThreadingTCPServer((address, 0), _relay_to(port, bucket)) as relay,
    ):
        assert server.stderr is not None
        for line in server.stderr:
            if "Starting s3 server" in line:
                break
        relay.daemon_threads = True
        bucket.url = f"{'http' if certificates is None else 'https'}://{address}:{relay.server_address[1]}"
        thread = threading.Thread(target=relay.serve_forever, kwargs={"poll_interval": 0.01})
        reader = threading.Thread(target=server.stderr.read)  # the server must not wait for a full pipe
        thread.start()
        reader.start()
        try:
            yield bucket
        finally:
            relay.shutdown()
            server.terminate()
            thread.join()
            reader.join()


def _relay_to(port: int, bucket: LoopbackBucket) -> type[socketserver.BaseRequestHandler]:
    class Relay(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            if bucket.refuses_every is not None:
                self._answer_once()
                return
            with socket.create_connection(("127.0.0.1", port)) as server:
                back = threading.Thread(target=self._pass_back, args=(server,), daemon=True)
                back.start()
                self._pass_on(server)
                back.join()

        def _answer_once(self) -> None:
            """Pass on one request of at most some kilobytes, or refuse it; then close the connection."""
            head = _read_request(self.request)
            if head and bucket.refuses(head):
                self.request.sendall(b"HTTP/1.1 503 Slow Down\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            elif head:
                with socket.create_connection(("127.0.0.1", port)) as server:
                    server.sendall(head.replace(b"\r\n", b"\r\nConnection: close\r\n", 1))
                    self._pass_back(server)
            _close(self.request)

        def _pass_on(self, server: socket.socket) -> None:
            with suppress(OSError):
                while data := self.request.recv(65536):
                    if not bucket.may_receive(len(data)):
                        _close(self.request)
                        break
                    server.sendall(data)
            _close(server)

        def _pass_back(self, server: socket.socket) -> None:
            with suppress(OSError):
                while (data := server.recv(65536)) and bucket.may_send(len(data)):
                    self.request.sendall(data)
            _close(self.request)

    return Relay


def _read_request(connection: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        received = connection.recv(65536)
        if not received:
            return b""
        data += received
    head, _, body = data.partition(b"\r\n\r\n")
    lengths = [line.split(b":")[1] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    if b"100-continue" in head.lower():
        connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
    while lengths and len(body) < int(lengths[0]):
        body += connection.recv(65536)
    return head + b"\r\n\r\n" + body


def _close(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
