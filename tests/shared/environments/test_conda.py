"""Real environments by conda, from a channel in a folder, whose Python is this machine's: pins, hashes, one build."""

import asyncio
import json
import shutil
import subprocess
import sys
from functools import partial
from http.server import SimpleHTTPRequestHandler
from threading import Thread

import pytest

from tests.support.channels import SERIES, VERSION, index, make_conda, make_python
from tests.support.environments import lines_of_logs, workshop_in
from tests.support.http_servers import QuietServer
from tests.support.wheels import make_wheel
from vlmhyperbench.domain.environments import VirtualenvSpec
from vlmhyperbench.environments.preparing import prepared
from vlmhyperbench.environments.store import EnvironmentStore
from vlmhyperbench.errors import InvalidInput, Unavailable
from vlmhyperbench_gateway.identity import list_packages

pytestmark = pytest.mark.anyio

WHERE = "import sys, engine, tool; print(sys.prefix, engine.VERSION, tool.VERSION)"


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    """A channel with Python, a pure package, and a library that it needs."""
    folder = tmp_path_factory.mktemp("channels") / "here"
    make_python(folder)
    tool = {"site-packages/tool.py": b"VERSION = '2.0'\n"}
    make_conda(folder, "tool", "2.0", tool, build="pyh_1", needs=["python >=3.9", "libthing >=1"], noarch="python")
    make_conda(folder, "tool", "1.0", tool, build="pyh_1", needs=["python >=3.9"], noarch="python")
    make_conda(folder, "libthing", "1.5", {"lib/libthing.so": b"a library"}, build="h1")
    index(folder)
    return folder


@pytest.fixture
def channel(packed, index, tmp_path, monkeypatch):
    """A copy of the channel, and a folder of wheels, in place of any server."""
    folder = shutil.copytree(packed, tmp_path / "channels" / "here")
    make_wheel(index, "engine", "1.0")
    monkeypatch.setenv("CONDA_CHANNEL_ALIAS", (tmp_path / "channels").as_uri())
    monkeypatch.setenv("RATTLER_CACHE_DIR", str(tmp_path / "rattler"))
    return folder


@pytest.fixture
def prepare(channel, tmp_path):
    """Prepare an environment and return it with the steps that took time."""

    async def run(*conda, **fields):
        steps = []

        async def tell(step, packages):
            steps.append((step, packages))

        fields = {"requirements": ("engine==1.0",), "channels": ("here",), **fields}
        spec = VirtualenvSpec(manager="conda", conda=conda or ("tool==2.0",), **fields)
        async with prepared(spec, workshop_in(tmp_path / "environments"), tell=tell) as ready:
            return ready, steps

    return run


def imported(ready, code):
    done = subprocess.run([ready.python, "-I", "-c", code], check=True, capture_output=True, text=True)
    return done.stdout.strip()


async def test_python_and_libraries_come_from_a_channel_and_requirements_beside_them(prepare, channel, tmp_path):
    ready, steps = await prepare("tool==2.0=pyh_1")
    assert steps == [("resolving", None), ("installing", 4)]
    assert ready.packages == {
        "conda:libthing": "1.5=h1",
        "conda:python": f"{VERSION}=h0",
        "conda:tool": "2.0=pyh_1",
        "engine": "1.0",
    }
    assert ready.python_version == VERSION
    folder = EnvironmentStore(tmp_path / "environments").folder_of(ready.key)
    assert imported(ready, WHERE).split() == [str(folder), "1.0", "2.0"]
    assert (folder / "lib" / "libthing.so").read_bytes() == b"a library"
    assert await list_packages(ready.python) == ready.packages  # what the gateway stores with every claim
    shutil.rmtree(channel)
    before = lines_of_logs(tmp_path / "environments" / "logs")
    again, steps = await prepare("tool==2.0=pyh_1")
    assert (again.key, steps) == (ready.key, [])
    assert lines_of_logs(tmp_path / "environments" / "logs") == before != {}


async def test_concurrent_users_build_once(prepare):
    users = await asyncio.gather(*(prepare() for _ in range(4)))
    assert len({ready.key for ready, _ in users}) == 1
    steps = [step for _, steps in users for step, _ in steps]
    assert (steps.count("resolving"), steps.count("installing")) == (1, 1)


async def test_the_same_packages_by_uv_are_another_environment(prepare, tmp_path):
    ready, _ = await prepare("tool==1.0")
    spec = VirtualenvSpec(requirements=("engine==1.0",))
    async with prepared(spec, workshop_in(tmp_path / "environments")) as other:
        assert other.key != ready.key


@pytest.mark.parametrize(
    ("conda", "fields", "named"),
    [
        (("tool==9.9",), {}, "tool"),
        (("tool==2.0=other",), {}, "tool"),
        ((), {"python": "3.99"}, "python"),
        ((), {"requirements": ("engine==7.7",)}, "engine==7.7"),
    ],
)
async def test_what_no_channel_has_is_named(prepare, tmp_path, conda, fields, named):
    with pytest.raises(InvalidInput) as refused:
        await prepare(*conda, **fields)
    assert refused.value.code == "environment_unresolvable"
    assert named in refused.value.message.partition("\n")[2]
    assert "Traceback" not in refused.value.message
    assert not list((tmp_path / "environments").glob("*.resolved"))


async def test_a_named_version_of_python_is_taken_from_the_channel(prepare):
    ready, _ = await prepare(python=SERIES)
    assert ready.python_version == VERSION


@pytest.fixture(params=["folder", "server"])
def served(request, channel, monkeypatch):
    """The channel, in a folder or at a server, since not the same code checks the hashes of both."""
    if request.param == "folder":
        yield
        return
    handler = partial(SimpleHTTPRequestHandler, directory=str(channel.parent))
    with QuietServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("CONDA_CHANNEL_ALIAS", f"http://127.0.0.1:{server.server_port}")
        yield
        server.shutdown()


async def test_a_package_that_is_not_the_resolved_one_is_refused_and_nothing_is_left(
    served, prepare, channel, tmp_path
):
    ready, _ = await prepare()
    store = EnvironmentStore(tmp_path / "environments")
    async with store.held(ready.key):
        await store.clear(ready.key)
    make_conda(channel, "libthing", "1.5", {"lib/libthing.so": b"something else"}, build="h1")
    shutil.rmtree(tmp_path / "rattler")
    with pytest.raises(InvalidInput) as refused:
        await prepare()
    assert refused.value.code == "environment_failed"
    assert "libthing" in refused.value.message
    assert list(store.list_keys()) == []


async def test_a_server_of_channels_that_does_not_answer_may_be_tried_again(prepare, monkeypatch):
    monkeypatch.setenv("CONDA_CHANNEL_ALIAS", "http://127.0.0.1:9")
    with pytest.raises(Unavailable) as refused:
        await prepare()
    assert refused.value.code == "index_unreachable"


async def test_a_password_in_the_address_of_channels_is_refused_and_not_shown(prepare, monkeypatch):
    monkeypatch.setenv("CONDA_CHANNEL_ALIAS", "http://someone:a-hidden-word@127.0.0.1:9")
    with pytest.raises(InvalidInput) as refused:
        await prepare()
    assert "RATTLER_AUTH_FILE" in refused.value.message
    assert "a-hidden-word" not in refused.value.message


async def test_no_server_and_no_password_is_kept_with_the_resolved_packages(prepare, channel, tmp_path):
    await prepare()
    [resolved] = (tmp_path / "environments").glob("*.resolved")
    lines = [json.loads(line[8:]) for line in resolved.read_text().splitlines() if line.startswith("# conda ")]
    assert {line["channel"] for line in lines} == {"here"}
    assert channel.as_uri() not in resolved.read_text()


async def test_without_the_library_the_error_says_what_to_install(prepare, monkeypatch, wording):
    monkeypatch.setitem(sys.modules, "rattler", None)
    with pytest.raises(Unavailable) as refused:
        await prepare()
    assert refused.value.code == "not_installed"
    wording(refused.value)
