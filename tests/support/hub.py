"""A hub on loopback that serves real files as huggingface.co does: listing, redirects, ranges, gates and failures.

The hub is a remote service, which no test can reach; huggingface_hub itself is the client.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import unquote, urlsplit

from tests.support.http_servers import QuietServer

TOKEN = "hf_right"
LARGE = 4096
"""Files of at least this size are kept in LFS: their hash is listed, and they are redirected to the CDN."""


@dataclass
class HeldRepository:
    """A repository of the hub, at one commit."""

    files: Mapping[str, bytes]
    commit: str
    license: str = "apache-2.0"
    is_gated: bool = False
    is_private: bool = False


@dataclass
class LoopbackHub:
    """What the hub holds, how it fails, and what it was asked."""

    url: str = ""
    repositories: dict[str, HeldRepository] = field(default_factory=dict)
    cut_after: dict[str, int] = field(default_factory=dict)
    """File → bytes after which the connection is cut, once."""
    replaced: dict[str, bytes] = field(default_factory=dict)
    """File → content that is sent instead of the one that is listed."""
    status: int | None = None
    """HTTP status of every answer."""
    requests: list[tuple[str, str, str]] = field(default_factory=list)
    """Method, path and range."""

    @property
    def cdn(self) -> str:
        """Another host, as on the hub: the client follows redirects to the hub itself at once."""
        return self.url.replace("127.0.0.1", "localhost")

    def hold(self, repo: str, files: Mapping[str, bytes], **options: Any) -> HeldRepository:
        """Add a repository; its commit follows from its content, as in git."""
        commit = hashlib.sha1(repr(sorted(files.items())).encode()).hexdigest()
        self.repositories[repo] = HeldRepository(files=files, commit=commit, **options)
        return self.repositories[repo]

    def downloads(self, name: str) -> list[str]:
        """Return the ranges in which a file's content was asked for."""
        return [asked for method, path, asked in self.requests if method == "GET" and path.endswith(name)]

    def fetched(self) -> set[str]:
        """Return the files of which content was asked for."""
        return {path.split("/resolve/")[1].partition("/")[2] for _, path, _ in self.requests if "/resolve/" in path}


@contextmanager
def serve_hub() -> Iterator[LoopbackHub]:
    """Serve a hub until the block ends."""
    hub = LoopbackHub()

    class Handler(_Handler):
        state = hub

    server = QuietServer(("127.0.0.1", 0), Handler)
    hub.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _named(kind: str | None, repo: str) -> str:
    return f"{kind}/{repo}" if kind else repo


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    state: LoopbackHub

    def log_message(self, *_: object) -> None:
        """Write nothing."""

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def _answer(self) -> None:
        path = unquote(urlsplit(self.path).path)
        self.state.requests.append((self.command, path, self.headers.get("Range", "")))
        if self.state.status is not None:
            self._send(self.state.status, b"{}")
        elif match := re.fullmatch(r"/api/(?:models|(datasets))/([^/]+/[^/]+)/revision/(.+)", path):
            self._list(_named(match[1], match[2]), match[3])
        elif match := re.fullmatch(r"/cdn/((?:datasets/)?[^/]+/[^/]+)/(.+)", path):
            self._content(match[2], self.state.repositories[match[1]].files[match[2]], {})
        elif match := re.fullmatch(r"/((?:datasets/)?[^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
            self._resolve(match[1], match[2], match[3])
        else:
            self._send(404, b"")

    def _list(self, repo: str, revision: str) -> None:
        held = self._visible(repo)
        if held is None:
            return
        if revision not in {"main", "v1.0", held.commit}:
            self._send(404, b"{}", {"X-Error-Code": "RevisionNotFound"})
            return
        siblings = []
        for name, content in held.files.items():
            sibling: dict[str, object] = {"rfilename": name, "size": len(content), "blobId": _git_id(content)}
            if len(content) >= LARGE:
                sha256 = hashlib.sha256(content).hexdigest()
                sibling["lfs"] = {"sha256": sha256, "size": len(content), "pointerSize": 134}
            siblings.append(sibling)
        card = {"license": held.license}
        body = {
            "id": repo.removeprefix("datasets/"),
            "sha": held.commit,
            "cardData": card,
            "siblings": siblings,
            "gated": held.is_gated,
        }
        self._send(200, json.dumps(body).encode(), {"Content-Type": "application/json"})

    def _resolve(self, repo: str, revision: str, name: str) -> None:
        held = self._visible(repo)
        if held is None:
            return
        if held.is_gated and self.headers.get("Authorization") != f"Bearer {TOKEN}":
            status = 403 if "Authorization" in self.headers else 401
            self._send(status, b"{}", {"X-Error-Code": "GatedRepo"})
        elif revision != held.commit or name not in held.files:
            self._send(404, b"", {"X-Error-Code": "EntryNotFound"})
        else:
            self._send_file(repo, name, held)

    def _send_file(self, repo: str, name: str, held: HeldRepository) -> None:
        content, headers = held.files[name], {"X-Repo-Commit": held.commit}
        if len(content) < LARGE:
            self._content(name, content, {**headers, "ETag": f'"{_git_id(content)}"'})
            return
        headers |= {
            "X-Linked-Etag": f'"{hashlib.sha256(content).hexdigest()}"',
            "X-Linked-Size": str(len(content)),
            "Location": f"{self.state.cdn}/cdn/{repo}/{name}?Signature=secret",
        }
        self._send(302, b"", headers)

    def _content(self, name: str, content: bytes, headers: Mapping[str, str]) -> None:
        content, status, sent = self.state.replaced.get(name, content), 200, dict(headers)
        if match := re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", "")):
            start, total = int(match[1]), len(content)
            content, status = content[start:], 206
            sent["Content-Range"] = f"bytes {start}-{total - 1}/{total}"
        cut = self.state.cut_after.pop(name, None) if self.command == "GET" else None
        self._send(status, content, sent, cut)

    def _visible(self, repo: str) -> HeldRepository | None:
        held = self.state.repositories.get(repo)
        has_token = self.headers.get("Authorization") == f"Bearer {TOKEN}"
        if held is not None and (has_token or not held.is_private):
            return held
        # As the hub does: who has no token is not told whether a repository exists.
        self._send(404 if has_token else 401, b"{}", {"X-Error-Code": "RepoNotFound"})
        return None

    def _send(
        self, status: int, body: bytes, headers: Mapping[str, str] | None = None, cut_after: int | None = None
    ) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "HEAD":
            return
        self.wfile.write(body if cut_after is None else body[:cut_after])
        if cut_after is not None:
            self.wfile.flush()
            self.close_connection = True
            self.connection.shutdown(2)


def _git_id(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\x00" % len(content) + content).hexdigest()
