"""Images at URLs: fetched once, from allowed hosts, within bounds; a loopback server answers."""

from __future__ import annotations

import hashlib
import io
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from PIL import Image as Pillow

from tests.support.http_servers import QuietServer
from vlmhyperbench.data.addresses import ImageAddresses
from vlmhyperbench.data.images import InvalidImage, read_image
from vlmhyperbench.domain.specs import Limits
from vlmhyperbench.errors import Unavailable
from vlmhyperbench.settings import Settings
from vlmhyperbench_sdk.net import UrlPolicy
from vlmhyperbench_sdk.types import Image


def _page() -> bytes:
    file = io.BytesIO()
    Pillow.new("L", (4, 2)).save(file, "PNG")
    return file.getvalue()


PAGE = _page()
ANSWERS: dict[str, tuple[int, dict[str, str], bytes]] = {
    "/page.png": (200, {"Content-Type": "image/png"}, PAGE),
    "/signed?a=b%20c&d=1": (200, {"Content-Type": "image/png"}, PAGE),
    "/a//b.png": (200, {}, PAGE),
    "/moved": (302, {"Location": "/page.png"}, b""),
    "/loop": (302, {"Location": "/loop"}, b""),
    "/metadata": (302, {"Location": "http://169.254.169.254/latest/meta-data/"}, b""),
    "/file": (302, {"Location": "file:///etc/passwd"}, b""),
    "/html": (200, {"Content-Type": "text/html"}, b"<html>"),
    "/large": (200, {"Content-Type": "image/png"}, PAGE + bytes(100_000)),
    "/short": (200, {"Content-Type": "image/png", "Content-Length": "9999"}, PAGE),
    "/busy": (503, {}, b""),
}


class _Handler(BaseHTTPRequestHandler):
    asked: Counter[str]

    def do_GET(self) -> None:
        self.asked[self.path] += 1
        status, headers, body = ANSWERS.get(self.path, (404, {}, b""))
        self.send_response(status)
        for name, value in ({"Content-Length": str(len(body))} | headers).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture
def asked() -> Counter[str]:
    return Counter()


@pytest.fixture
def server(asked: Counter[str]) -> Iterator[str]:
    handler = type("Handler", (_Handler,), {"asked": asked})
    with QuietServer(("127.0.0.1", 0), handler) as served:
        thread = threading.Thread(target=served.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{served.server_port}"
        served.shutdown()
        thread.join()


@pytest.fixture
def addresses(tmp_path: Path) -> ImageAddresses:
    return ImageAddresses(policy=UrlPolicy(allow_loopback=True), folder=tmp_path / "images", max_bytes=2**20)


def test_nothing_is_fetched_unless_the_machine_says_so(tmp_path: Path, server: str, asked: Counter[str]) -> None:
    assert ImageAddresses.of(Settings(home=tmp_path)) is None
    assert ImageAddresses.of(Settings(home=tmp_path, fetch_images=True, offline=True)) is None
    with pytest.raises(InvalidImage) as refused:
        read_image(Image(url=f"{server}/page.png"), root=tmp_path, limits=Limits())
    assert "VLMHB_FETCH_IMAGES" in refused.value.cure
    assert not asked


@pytest.mark.parametrize("path", ["/page.png", "/signed?a=b%20c&d=1", "/a//b.png", "/moved"])
def test_an_image_is_fetched_once_and_its_damaged_copy_again(
    path: str, server: str, asked: Counter[str], addresses: ImageAddresses
) -> None:
    image = Image(url=server + path)
    for _ in range(2):
        assert read_image(image, root=None, limits=Limits(), addresses=addresses) == PAGE
    assert asked[path] == 1
    [copy] = addresses.folder.rglob("*-*")
    assert copy.name.endswith(hashlib.sha256(PAGE).hexdigest())
    copy.write_bytes(b"damaged")
    assert addresses.read(server + path, Limits()) == PAGE
    assert asked[path] == 2


@pytest.mark.parametrize(
    "path", ["/absent", "/html", "/large", "/loop", "/metadata", "/file", "/p?q=\N{SNOWMAN}", "/../p"]
)
def test_what_is_no_allowed_image_is_refused_and_not_kept(path: str, server: str, addresses: ImageAddresses) -> None:
    with pytest.raises(InvalidImage):
        addresses.read(server + path, Limits(max_image_bytes=50_000))
    assert not addresses.folder.exists()


@pytest.mark.parametrize("path", ["/short", "/busy"])
def test_a_server_that_fails_may_be_asked_again(path: str, server: str, addresses: ImageAddresses) -> None:
    with pytest.raises(Unavailable):
        addresses.read(server + path, Limits())
    assert not addresses.folder.exists()


def test_the_policy_of_urls_decides_which_hosts_are_asked(
    server: str, asked: Counter[str], addresses: ImageAddresses
) -> None:
    with pytest.raises(InvalidImage, match="embedded stack only"):
        replace(addresses, policy=UrlPolicy()).read(f"{server}/page.png", Limits())
    assert not asked
