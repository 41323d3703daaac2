"""Private and rewritten git repositories over https and files: tokens, cut downloads, commits that are gone."""

import asyncio
import base64
import os
import shutil
import ssl
import threading
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from tests.support.http_servers import QuietServer
from tests.support.repositories import commit, git
from vlmhyperbench.environments.git import Repository
from vlmhyperbench.errors import Denied, NotFound, Unavailable
from vlmhyperbench.registry.sources import GitSource

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("index")]
CERTIFICATE = Path(__file__).parents[2] / "loadgen" / "loopback.pem"
TOKEN = "a-very-hidden-token"


class PrivateServer(BaseHTTPRequestHandler):
    """The git repositories of a folder, over HTTP, for those who know the token."""

    root: Path
    heads: list[str | None]
    is_cut = False
    """Whether the connection ends in the middle of every object."""

    def do_GET(self):
        self.heads.append(self.headers.get("Authorization"))
        if self.heads[-1] is None or TOKEN not in base64.b64decode(self.heads[-1].split()[1]).decode():
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="private"')
            self.end_headers()
            return
        file = self.root / self.path.partition("?")[0].lstrip("/")
        body = file.read_bytes() if file.is_file() else b""
        self.send_response(200 if file.is_file() else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: len(body) // 2] if self.is_cut and "/objects/" in self.path else body)

    def log_message(self, *_):
        pass


@pytest.fixture
def private(project, tmp_path, monkeypatch):
    """A private repository at an https address; yields the address and the credentials that it was given."""
    commit(project)
    git(tmp_path, "clone", "--quiet", "--bare", str(project), str(tmp_path / "served" / "project.git"))
    git(tmp_path / "served" / "project.git", "update-server-info")
    handler = type("Handler", (PrivateServer,), {"root": tmp_path / "served", "heads": []})
    server = QuietServer(("127.0.0.1", 0), handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("GIT_SSL_CAINFO", str(CERTIFICATE))
    yield f"https://127.0.0.1:{server.server_port}/project.git", handler.heads
    server.shutdown()
    server.server_close()


async def test_a_private_repository_never_asks_and_says_where_a_token_is_set(private, pin, wording):
    url, _ = private
    with pytest.raises(Denied) as refused:
        await asyncio.wait_for(pin(GitSource(type="git", url=url, ref="main")), 30)
    assert refused.value.code == "git_denied"
    wording(refused.value, URL=url, HOST=url.removesuffix("/project.git"))


async def test_the_token_opens_a_private_repository_and_is_written_nowhere(private, pin, workshop, tmp_path):
    url, heads = private
    secret = workshop.secrets_dir / "MY_TOKEN"
    secret.touch(mode=0o600)
    secret.write_text(TOKEN)
    pinned = await pin(GitSource(type="git", url=url, ref="main", token_secret="MY_TOKEN"))
    assert pinned.plugins == {"backends": ("theirs",)}
    assert any(heads)
    secret.unlink()
    for folder in (workshop.logs, workshop.store.folder, tmp_path / "cache"):
        for file in folder.rglob("*"):
            assert not file.is_file() or TOKEN.encode() not in file.read_bytes(), file


async def test_git_gets_the_token_in_no_argument(private, tmp_path, monkeypatch):
    """A program in place of git writes down how it was called, and does what git does."""
    url, _ = private
    real, seen = shutil.which("git"), tmp_path / "seen"
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "git"
    program.write_text(f'#!/bin/sh\necho "$@" >> {seen}\nexec {real} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    await Repository(url, tmp_path / "git.log", token=TOKEN).commit_of("main")
    assert "ls-remote" in seen.read_text()
    assert TOKEN not in seen.read_text()


async def test_half_a_download_may_be_tried_again_and_leaves_nothing(private, tmp_path, monkeypatch):
    repository = Repository(private[0], tmp_path / "git.log", token=TOKEN)
    sha = await repository.commit_of("main")
    monkeypatch.setattr(PrivateServer, "is_cut", True)
    with pytest.raises(Unavailable) as cut:
        await repository.check_out(sha, tmp_path / "out")
    assert (cut.value.code, (tmp_path / "out").exists()) == ("git_unreachable", False)
    monkeypatch.setattr(PrivateServer, "is_cut", False)
    await repository.check_out(sha, tmp_path / "out")
    assert (tmp_path / "out" / "theirs.py").read_text() == "VERSION = 1\n"


async def test_a_branch_that_moved_leaves_the_pin_and_a_commit_that_is_gone_is_named(project, pin, tmp_path):
    first, bare = commit(project), tmp_path / "bare.git"
    git(tmp_path, "clone", "--quiet", "--bare", str(project), str(bare))
    source = GitSource(type="git", url=bare.as_uri(), ref="main")
    pinned = await pin(source)
    (project / "theirs.py").write_text("VERSION = 2\n")
    git(project, "commit", "--quiet", "--all", "--amend", "--message", "Rewrite it")
    git(project, "push", "--quiet", "--force", str(bare), "main")
    again = await pin(source)
    assert again.source.commit != first == pinned.source.commit
    git(bare, "gc", "--quiet", "--prune=now")
    with pytest.raises(NotFound) as gone:
        await Repository(bare.as_uri(), tmp_path / "git.log").check_out(first, tmp_path / "out")
    assert gone.value.code == "no_ref"
