"""Real environments by real uv and pip, from a folder of wheels: built once, used again, never half-built."""

import asyncio
import errno
import json
import os
import subprocess
import sys

import pytest

from tests.support.environments import lines_of_logs, workshop_in
from tests.support.processes import eventually, wait_until_ended
from tests.support.wheels import make_source, make_wheel
from vlmhyperbench.domain.environments import VirtualenvSpec
from vlmhyperbench.environments.preparing import prepared
from vlmhyperbench.environments.store import EnvironmentStore
from vlmhyperbench.errors import Conflict, InvalidInput, NotFound, Unavailable

pytestmark = pytest.mark.anyio

HOLD = """
import asyncio, json, sys
from pathlib import Path
from tests.support.environments import workshop_in
from tests.support.environments import workshop_in
from vlmhyperbench.domain.environments import VirtualenvSpec
from vlmhyperbench.environments.preparing import prepared

async def main():
    steps = []
    async def tell(step, packages):
        steps.append(step)
    spec = VirtualenvSpec(requirements=("engine==1.0",))
    async with prepared(spec, workshop_in(Path(sys.argv[1])), tell=tell) as ready:
        print(json.dumps([ready.key, steps]), flush=True)
        sys.stdin.read()

asyncio.run(main())
"""


BLOCK = """
import os, pathlib, time
parent, started = os.getppid(), pathlib.Path({file!r})
started.write_text(str(os.getpid()))
while os.getppid() == parent and not (started.parent / "free").exists():
    time.sleep(0.01)
"""


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture
def wheels(index):
    """An engine, and two versions of what it needs."""
    make_wheel(index, "engine", "1.0", needs=["kernel>=1"])
    make_wheel(index, "kernel", "1.0")
    make_wheel(index, "kernel", "2.0")
    return index


@pytest.fixture
def home(tmp_path):
    return tmp_path / "environments"


@pytest.fixture
def prepare(wheels, home, tmp_path):
    """Prepare an environment and return it with the steps that took time."""

    async def run(*requirements, **fields):
        steps = []

        async def tell(step, packages):
            steps.append((step, packages))

        spec = VirtualenvSpec(requirements=requirements or ("engine==1.0",), **fields)
        async with prepared(spec, workshop_in(home), tell=tell) as ready:
            return ready, steps

    return run


def imported(ready, code):
    done = subprocess.run([ready.python, "-I", "-c", code], check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.mark.parametrize("manager", ["uv", "pip"])
async def test_an_environment_has_its_packages_and_those_that_they_need(prepare, manager):
    ready, steps = await prepare(manager=manager)
    assert steps == [("resolving", None), ("installing", 2)]
    assert ready.packages == {"engine": "1.0", "kernel": "2.0"}
    assert imported(ready, "import engine, kernel; print(engine.VERSION, kernel.VERSION)") == "1.0 2.0"
    assert imported(ready, "import importlib.util; print(importlib.util.find_spec('pydantic'))") == "None"


async def test_the_second_use_builds_nothing_and_runs_no_program(prepare, wheels, home):
    first, _ = await prepare()
    for wheel in wheels.iterdir():
        wheel.unlink()
    before = lines_of_logs(home / "logs")
    second, steps = await prepare()
    assert steps == []
    assert second.key == first.key
    assert lines_of_logs(home / "logs") == before != {}


async def test_specs_that_resolve_to_the_same_packages_share_one_environment(prepare):
    first, _ = await prepare()
    second, steps = await prepare("engine==1.0", "kernel==2.0")
    assert second.key == first.key
    assert steps == [("resolving", None)]
    third, _ = await prepare("engine==1.0", "kernel==1.0")
    assert third.key != first.key


async def test_an_override_replaces_what_packages_require(prepare):
    ready, _ = await prepare(overrides=("kernel ; sys_platform == 'never'",))
    assert ready.packages == {"engine": "1.0"}


def hold(home):
    """Start a process that prepares an environment, prints its key and what it did, and holds it until it is ended."""
    return subprocess.Popen(
        [sys.executable, "-c", HOLD, str(home)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


async def test_concurrent_users_build_once_and_what_they_use_is_not_removed(wheels, home):
    children = [hold(home) for _ in range(4)]
    told = [json.loads(child.stdout.readline()) for child in children]
    [key] = {key for key, _ in told}
    assert sum("installing" in steps for _, steps in told) == 1
    assert sum("resolving" in steps for _, steps in told) == 1
    store = EnvironmentStore(home)
    with pytest.raises(Conflict) as refused:
        await store.remove(key)
    assert refused.value.code == "in_use"
    for child in children:
        child.communicate()
    await store.remove(key)
    assert list(store.list_keys()) == []
    assert list(home.glob("*.resolved")) == []


async def started(wheels, tmp_path):
    """Let the next build of the environment block, and return a function that says whether it has begun."""
    make_source(wheels, "kernel", "3.0", build=BLOCK.format(file=str(tmp_path / "started")))

    async def has_begun():
        return (tmp_path / "started").exists() and (tmp_path / "started").read_text() != ""

    return has_begun


async def test_a_build_that_was_killed_is_never_used(wheels, home, tmp_path, prepare):
    has_begun = await started(wheels, tmp_path)
    child = hold(home)
    await eventually(has_begun, "a build")
    child.kill()
    child.communicate()
    store = EnvironmentStore(home)
    [key] = store.list_keys()
    assert store.ready(key) is None
    (store.folder_of(key) / "leftover").touch()
    (tmp_path / "free").touch()
    ready, steps = await prepare()
    assert ready.key == key
    assert ("installing", 2) in steps
    assert not (store.folder_of(key) / "leftover").exists()
    assert imported(ready, "import kernel; print(kernel.VERSION)") == "3.0"


async def test_a_cancelled_build_ends_its_installer_and_leaves_nothing(wheels, home, tmp_path, prepare):
    has_begun = await started(wheels, tmp_path)
    building = asyncio.create_task(prepare())
    await eventually(has_begun, "a build")
    building.cancel()
    with pytest.raises(asyncio.CancelledError):
        await building
    assert list(EnvironmentStore(home).list_keys()) == []
    await asyncio.to_thread(wait_until_ended, int((tmp_path / "started").read_text()))


async def test_an_environment_whose_interpreter_is_gone_is_built_anew(prepare):
    ready, _ = await prepare()
    os.unlink(ready.python)  # noqa: PTH108 -- it blocks no other
    again, steps = await prepare()
    assert (again.key, steps) == (ready.key, [("installing", 2)])
    assert imported(again, "import engine; print(engine.VERSION)") == "1.0"


async def test_an_unresolvable_requirement_ends_with_the_log_of_the_installer(prepare, home, wording):
    with pytest.raises(InvalidInput) as refused:
        await prepare("engine==1.0", "kernel==9.9")
    assert refused.value.code == "environment_unresolvable"
    assert "kernel==9.9" in refused.value.message
    assert "unsatisfiable" in refused.value.message
    assert not list(home.glob("*.resolved"))
    wording(refused.value.message.splitlines()[0])
    wording(refused.value.cure)


async def test_a_wheel_that_is_not_the_resolved_one_is_refused(prepare, wheels, home, monkeypatch):
    ready, _ = await prepare()
    store = EnvironmentStore(home)
    async with store.held(ready.key):
        await store.clear(ready.key)
    make_wheel(wheels, "kernel", "2.0", code="VERSION = 'changed'\n")
    monkeypatch.setenv("UV_CACHE_DIR", str(home / "another-cache"))
    with pytest.raises(InvalidInput) as refused:
        await prepare()
    assert refused.value.code == "environment_failed"
    assert "hash" in refused.value.message.lower()
    assert list(store.list_keys()) == []


async def test_an_index_that_does_not_answer_may_be_tried_again(prepare, monkeypatch):
    monkeypatch.delenv("UV_NO_INDEX")
    monkeypatch.setenv("UV_DEFAULT_INDEX", "http://someone:a-hidden-word@127.0.0.1:9/simple")
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    with pytest.raises(Unavailable) as refused:
        await prepare("elsewhere==1.0")
    assert refused.value.code == "index_unreachable"
    assert "a-hidden-word" not in refused.value.message


async def test_a_version_of_python_that_the_machine_lacks_is_named(prepare, wording):
    with pytest.raises(NotFound) as refused:
        await prepare(python="3.99")
    assert refused.value.code == "no_python"
    wording(refused.value)


async def test_a_named_version_of_python_is_used(prepare):
    version = ".".join(map(str, sys.version_info[:2]))
    ready, _ = await prepare(python=version)
    assert imported(ready, "import sys; print('%d.%d' % sys.version_info[:2])") == version


async def test_without_uv_the_error_says_what_to_install(prepare, monkeypatch, wording):
    monkeypatch.setitem(sys.modules, "uv", None)
    with pytest.raises(Unavailable) as refused:
        await prepare()
    assert refused.value.code == "not_installed"
    wording(refused.value)


async def test_the_variables_of_the_host_do_not_reach_the_installer(prepare, wheels, tmp_path, monkeypatch):
    """The build of a source distribution runs any code: here it writes down what it sees."""
    seen = tmp_path / "seen.json"
    build = f"import json, os, pathlib\npathlib.Path({str(seen)!r}).write_text(json.dumps(dict(os.environ)))"
    make_source(wheels, "built", "1.0", build=build)
    monkeypatch.setenv("SOME_SETTING", "hidden")
    monkeypatch.setenv("OPENAI_API_KEY", "hidden")
    ready, _ = await prepare("built==1.0")
    assert imported(ready, "import built; print(built.VERSION)") == "1.0"
    variables = json.loads(seen.read_text())
    assert "hidden" not in variables.values()
    assert variables["HOME"] == os.environ["HOME"]


@pytest.fixture
def small_disk(tmp_path):
    """A disk of 4 MiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("only root can mount a small disk, and not on every machine")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


async def test_an_error_of_the_user_of_an_environment_stays_what_it_is(wheels, home, tmp_path):
    error = OSError(errno.ENOSPC, "No space left on device")
    with pytest.raises(OSError, match="No space left") as raised:
        async with prepared(VirtualenvSpec(requirements=("engine==1.0",)), workshop_in(home)):
            raise error
    assert raised.value is error


async def test_a_full_disk_is_told_apart_and_leaves_nothing(wheels, small_disk, tmp_path, monkeypatch):
    make_wheel(wheels, "engine", "1.0", code="# filling\n" * 1_000_000)
    monkeypatch.setenv("UV_LINK_MODE", "copy")
    spec = VirtualenvSpec(requirements=("engine==1.0",))
    with pytest.raises(Unavailable) as refused:
        await prepared(spec, workshop_in(small_disk / "environments")).__aenter__()
    assert refused.value.code == "storage_full"
    assert "envs remove" in refused.value.cure
    assert list(EnvironmentStore(small_disk / "environments").list_keys()) == []
