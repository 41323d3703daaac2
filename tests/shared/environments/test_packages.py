"""Packages of others by real git and uv: pinned by commit or content, built once, never with a credential in sight."""

import json
import subprocess
import sys

import anyio
import pytest

from tests.support.environments import workshop_in
from tests.support.processes import eventually
from tests.support.repositories import commit, git, write_project
from tests.support.wheels import make_wheel
from vlmhyperbench.domain.environments import VirtualenvSpec
from vlmhyperbench.domain.packages import GitPackage, LocalPackage
from vlmhyperbench.environments.preparing import prepared
from vlmhyperbench.errors import Conflict, InvalidInput, NotFound, Unavailable
from vlmhyperbench.folders import content_sha256
from vlmhyperbench.registry.sources import GitSource, LocalSource, PypiSource

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("index")]
NOBODY = "https://127.0.0.1:9/x.git"
BACKENDS = {"theirs": "theirs:Adapter"}

HOLD = """
import asyncio, json, sys
from pathlib import Path
from tests.support.environments import workshop_in
from vlmhyperbench.domain.environments import VirtualenvSpec
from vlmhyperbench.environments.preparing import prepared

async def main():
    steps = []
    async def tell(step, packages):
        steps.append(step)
    spec = VirtualenvSpec.model_validate_json(sys.argv[2])
    async with prepared(spec, workshop_in(Path(sys.argv[1])), tell=tell, own=sys.argv[3:]) as ready:
        print(json.dumps([ready.key, steps]), flush=True)
        sys.stdin.read()

asyncio.run(main())
"""

REMOVE = """
import asyncio, sys
from pathlib import Path
from vlmhyperbench.environments.store import EnvironmentStore
asyncio.run(EnvironmentStore(Path(sys.argv[1])).remove(sys.argv[2]))
"""

BLOCK = """\
import os, pathlib, time
parent = os.getppid()
pathlib.Path({begun!r}).touch()
while os.getppid() == parent and not pathlib.Path({may_end!r}).exists():
    time.sleep(0.01)
"""


def source_of(folder, ref="main", **more):
    return GitSource(type="git", url=folder.as_uri(), ref=ref, **more)


async def imported(package, workshop, code):
    """Run code in an environment that holds a package."""
    async with prepared(VirtualenvSpec(packages=(package,)), workshop) as ready:
        return printed(ready.python, code), ready


def printed(python, code):
    done = subprocess.run([python, "-I", "-c", code], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def hold(folder, spec, *own):
    """Start a process that prepares an environment, prints its key and what it did, and holds it until it is ended."""
    return subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder), spec, *own], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def remove_elsewhere(folder, key):
    """Remove an environment, as another process."""
    subprocess.run([sys.executable, "-c", REMOVE, str(folder), key], check=True)


async def test_a_branch_is_pinned_by_the_commit_that_it_is_now(project, pin, workshop):
    first = commit(project)
    pinned = await pin(source_of(project))
    assert (pinned.source.commit, pinned.plugins) == (first, {"backends": ("theirs",)})
    assert pinned.origin == f"git+{project.as_uri()}@{first}"
    (project / "theirs.py").write_text("VERSION = 2\n")
    second = commit(project)
    assert (await pin(source_of(project))).source.commit == second != first
    for wanted, version in ((first, "1"), (second, "2")):
        package = GitPackage(name="my-bench", url=project.as_uri(), commit=wanted)
        output, ready = await imported(package, workshop, "import theirs; print(theirs.VERSION)")
        assert (output, ready.packages) == (version, {"my-bench": "1.0.0"})


async def test_a_tag_is_the_commit_behind_it_and_precedes_a_branch_of_its_name(project, pin):
    first = commit(project)
    git(project, "tag", "--annotate", "--message", "One", "v1")
    (project / "theirs.py").write_text("VERSION = 2\n")
    commit(project)
    git(project, "branch", "v1")
    assert (await pin(source_of(project, "v1"))).source.commit == first


async def test_a_tag_that_was_moved_changes_no_pin_and_a_commit_that_is_gone_fails_by_its_name(
    project, pin, workshop, tmp_path
):
    first, bare = commit(project), tmp_path / "bare.git"
    git(project, "tag", "v1")
    git(tmp_path, "clone", "--quiet", "--bare", str(project), str(bare))
    pinned = await pin(source_of(bare, "v1"))
    (project / "theirs.py").write_text("VERSION = 2\n")
    git(project, "commit", "--quiet", "--all", "--amend", "--message", "Rewrite it")
    git(project, "tag", "--force", "v1")
    git(project, "push", "--quiet", "--force", str(bare), "main", "v1")
    moved = (await pin(source_of(bare, "v1"))).source.commit
    assert moved != first == pinned.source.commit
    old = GitPackage(name="my-bench", url=bare.as_uri(), commit=first)
    code = "import theirs; print(theirs.VERSION)"
    output, _ = await imported(old, workshop_in(tmp_path / "elsewhere"), code)
    assert output == "1"
    git(bare, "gc", "--quiet", "--prune=now")
    with pytest.raises(NotFound) as gone:
        await imported(old, workshop_in(tmp_path / "later"), code)
    assert gone.value.code == "no_ref"
    assert first in gone.value.message
    assert (await imported(old, workshop, code))[0] == "1", "the wheel that the pin built is kept"


async def test_a_commit_that_no_branch_has_any_more_is_still_built(project, pin):
    first = commit(project)
    git(project, "commit", "--quiet", "--amend", "--message", "Another")
    assert git(project, "rev-parse", "HEAD") != first
    assert (await pin(source_of(project, first))).source.commit == first


async def test_a_package_may_lie_in_a_folder_of_the_repository(tmp_path, pin):
    write_project(tmp_path / "all" / "part", {"theirs": ""}, backends=BACKENDS)
    commit(tmp_path / "all")
    pinned = await pin(source_of(tmp_path / "all", subdirectory="part"))
    assert pinned.origin.endswith("#subdirectory=part")
    assert pinned.plugins == {"backends": ("theirs",)}


async def test_a_folder_is_pinned_by_what_it_holds_and_not_by_what_tools_leave_there(project, pin, workshop):
    pinned = await pin(LocalSource(type="local", path=str(project)))
    (project / "__pycache__").mkdir()
    (project / "__pycache__" / "theirs.pyc").write_text("compiled")
    (project / "build").mkdir()
    (project / "build" / "left.py").write_text("")
    assert content_sha256(project) == pinned.source.sha256
    package = LocalPackage(name="my-bench", path=str(project), sha256=pinned.source.sha256)
    output, _ = await imported(package, workshop, "import theirs; print(theirs.VERSION)")
    assert output == "1"
    assert not list(project.glob("*.egg-info"))


async def test_a_folder_that_changed_is_refused_unless_its_wheel_is_kept(project, pin, workshop, wording, tmp_path):
    pinned = await pin(LocalSource(type="local", path=str(project)))
    package = LocalPackage(name="my-bench", path=str(project), sha256=pinned.source.sha256)
    (project / "theirs.py").write_text("VERSION = 2\n")
    output, _ = await imported(package, workshop, "import theirs; print(theirs.VERSION)")
    assert output == "1"
    with pytest.raises(Conflict) as refused:
        await imported(package, workshop_in(tmp_path / "elsewhere"), "")
    assert refused.value.code == "package_changed"
    wording(refused.value)
    assert not list((tmp_path / "elsewhere").glob("wheels/*"))


async def test_a_wheel_is_taken_as_it_is(tmp_path, pin, workshop):
    wheel = make_wheel(tmp_path, "theirs", "3.0")
    pinned = await pin(LocalSource(type="local", path=str(wheel)), name="theirs")
    assert pinned.plugins == {}
    package = LocalPackage(name="theirs", path=str(wheel), sha256=pinned.source.sha256)
    output, ready = await imported(package, workshop, "import theirs; print(theirs.VERSION)")
    assert (output, ready.packages) == ("3.0", {"theirs": "3.0"})


async def test_a_version_of_an_index_must_exist(tmp_path, pin):
    make_wheel(tmp_path / "wheels", "theirs", "1.0")
    pinned = await pin(PypiSource(type="pypi", name="theirs", version="1.0"), name="theirs")
    assert (pinned.origin, pinned.plugins) == ("theirs==1.0", None)
    with pytest.raises(NotFound) as refused:
        await pin(PypiSource(type="pypi", name="theirs", version="2.0"), name="theirs")
    assert refused.value.code == "no_package"


@pytest.mark.parametrize(
    ("source", "error", "code"),
    [
        (lambda folder: source_of(folder, "v9"), NotFound, "no_ref"),
        (lambda folder: source_of(folder, "0" * 40), NotFound, "no_ref"),
        (lambda folder: source_of(folder / "nowhere"), NotFound, "no_repository"),
        (
            lambda folder: GitSource(type="git", url=NOBODY, ref="v"),
            Unavailable,
            "git_unreachable",
        ),
        (lambda folder: LocalSource(type="local", path=str(folder / "nowhere")), NotFound, "no_file"),
        (lambda folder: source_of(folder, token_secret="NOWHERE"), NotFound, "not_found"),
    ],
)
async def test_what_is_not_there_is_named(project, pin, source, error, code, wording, tmp_path):
    commit(project)
    with pytest.raises(error) as refused:
        await pin(source(project))
    assert refused.value.code == code
    if error is not Unavailable:  # that one ends with the log of git, whose words are its own
        wording(refused.value, TMP=tmp_path)


async def test_another_distribution_than_the_entrys_is_refused(project, pin, wording, tmp_path):
    hidden = commit(project)
    with pytest.raises(InvalidInput) as refused:
        await pin(source_of(project), name="your-bench")
    assert refused.value.code == "wrong_package"
    wording(refused.value, TMP=tmp_path, COMMIT=hidden)


async def test_an_extra_that_the_package_lacks_is_refused_with_those_that_it_has(tmp_path, pin, wording):
    wheel = make_wheel(tmp_path, "theirs", "3.0", extras=["vision", "fast_io"])
    source = LocalSource(type="local", path=str(wheel))
    assert (await pin(source, name="theirs", extras=["fast-io"])).plugins == {}
    with pytest.raises(InvalidInput) as refused:
        await pin(source, name="theirs", extras=["vison"])
    assert refused.value.code == "no_extra"
    wording(refused.value, TMP=tmp_path, CONTENT=content_sha256(wheel))


async def test_a_package_that_cannot_be_built_shows_the_end_of_the_log(tmp_path, pin, workshop):
    project = write_project(tmp_path / "broken", {})
    (project / "building.py").write_text("raise RuntimeError('no such compiler')\n")
    commit(project)
    with pytest.raises(InvalidInput) as refused:
        await pin(source_of(project))
    assert refused.value.code == "package_unbuildable"
    assert "no such compiler" in refused.value.message
    assert not list(workshop.store.folder.glob("wheels/*"))
    assert not list(workshop.store.folder.glob(".building-*"))


async def test_a_package_whose_needs_nobody_has_ends_with_the_log_of_the_installer(tmp_path, pin, workshop):
    wheel = make_wheel(tmp_path, "theirs", "3.0", needs=["nobody>=1"])
    pinned = await pin(LocalSource(type="local", path=str(wheel)), name="theirs")
    package = LocalPackage(name="theirs", path=str(wheel), sha256=pinned.source.sha256)
    with pytest.raises(InvalidInput) as refused:
        await imported(package, workshop, "")
    assert refused.value.code == "environment_unresolvable"
    assert "nobody" in refused.value.message
    assert "unsatisfiable" in refused.value.message


async def test_without_git_the_error_says_what_to_install(project, pin, monkeypatch, wording):
    commit(project)
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(NotFound) as refused:
        await pin(source_of(project))
    assert refused.value.code == "not_installed"
    wording(refused.value)


async def test_concurrent_users_build_a_wheel_and_an_environment_once(project, workshop):
    package = GitPackage(name="my-bench", url=project.as_uri(), commit=commit(project))
    spec = VirtualenvSpec(packages=(package,)).model_dump_json()
    children = [hold(workshop.store.folder, spec) for _ in range(3)]
    told = [json.loads(child.stdout.readline()) for child in children]
    [key] = {key for key, _ in told}
    for step in ("fetching", "resolving", "installing"):
        assert sum(step in steps for _, steps in told) == 1
    for child in children:
        child.communicate()
    await workshop.store.remove(key)
    assert not list(workshop.store.wheels_folder.iterdir())


async def test_a_wheel_of_the_platform_stays_while_another_process_builds_with_it(workshop, tmp_path):
    """One process has written the SDK's wheel and not resolved yet, another removes what else was built with it."""
    store, begun, may_end = workshop.store, tmp_path / "begun", tmp_path / "free"
    async with prepared(VirtualenvSpec(), workshop, own=("vlmhyperbench-sdk",)) as first:
        pass
    slow = write_project(tmp_path / "slow", {"theirs": "VERSION = 1\n"}, backends=BACKENDS)
    building = slow / "building.py"
    building.write_text(BLOCK.format(begun=str(begun), may_end=str(may_end)) + building.read_text())
    package = LocalPackage(name="my-bench", path=str(slow), sha256=content_sha256(slow))
    child = hold(store.folder, VirtualenvSpec(packages=(package,)).model_dump_json(), "vlmhyperbench-sdk")

    try:
        await eventually(anyio.Path(begun).exists, "the build of the package")
        [wheel] = store.wheels_folder.glob("*/vlmhyperbench_sdk-*.whl")
        remove_elsewhere(store.folder, first.key)
        assert wheel.exists()
    finally:
        may_end.touch()
        output, _ = child.communicate()
    key, _ = json.loads(output)
    assert printed(str(store.python_of(key)), "import theirs, vlmhyperbench_sdk; print(theirs.VERSION)") == "1"
    await store.remove(key)
    assert not wheel.exists()
