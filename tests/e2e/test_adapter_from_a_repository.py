"""An adapter of somebody else, in a git repository: registered, pinned, and run from an environment of its own.

The adapter is that of the guide, and the commands are those of the guide; nothing of it is installed beside the
platform, and nobody has put its distribution on the list of allowed adapters.
"""

import json
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.support.guides import read_guide
from tests.support.repositories import commit
from tests.support.stack import ROOT, running_stack

FROM_PACKAGE = "default_adapter_package: my-bench\n"
"""The line that the guide adds to the backend's entry."""
APART = f"""\
default_backend_class: llamacpp
default_adapter_package: vlmhyperbench-llamacpp
environment: {{virtualenv: {{requirements: [xllamacpp=={version("xllamacpp")}]}}}}
"""
BROKEN = "raise RuntimeError('this adapter needs a machine of 1988')\n"


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """A folder with the package of the guide, as its reader writes it."""
    folder, guide = tmp_path_factory.mktemp("my-bench"), read_guide("adapter")
    (folder / f"{guide.module}.py").write_text(guide.source)
    project = read_guide("metric").project_text.partition("[project.entry-points")[0]
    (folder / "pyproject.toml").write_text(project + guide.project_text)
    return folder


@pytest.fixture(scope="module")
def stack(registries):
    with running_stack(registries) as found:
        for path, text in read_guide("adapter").files.items():
            file = found.home.root / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"{text}{FROM_PACKAGE}" if "backends" in path else text)
        yield found


@pytest.fixture(scope="module")
def give(program):
    """Run a command as a program, and return its exit code and the data of its JSON."""

    def run(*words):
        done = program(*words)
        assert done.stdout, done.stderr
        return done.returncode, json.loads(done.stdout.splitlines()[-1])["data"]

    return run


@pytest.fixture(scope="module")
def first(repository, give):
    """The commit that is registered first."""
    pinned = commit(repository)
    code, [added] = give("registry", "add", "package", "my-bench", "--git", repository.as_uri(), "--ref", "main")
    assert (code, added["plugins"]) == (0, {"backends": ["calculator"]})
    assert added["origin"] == f"git+{repository.as_uri()}@{pinned}"
    return pinned


def ask(give, *more):
    return give("run", "--model", "calculator", "--task", "document-qa", "--limit", "4", *more)


@pytest.fixture(scope="module")
def run(stack, give, first):
    code, found = ask(give)
    assert (code, found["state"], found["failed"]) == (0, "SUCCEEDED", 0), stack.logs()
    gateways = [
        argv[0].decode()
        for argv in (read(file).split(b"\0") for file in Path("/proc").glob("[0-9]*/cmdline"))
        if b"vlmhyperbench_gateway" in argv and any(str(stack.home.root).encode() in word for word in argv)
    ]
    return found | {"gateways": gateways}  # those of now: a later run may start another


def read(file):
    try:
        return file.read_bytes()
    except OSError:  # the process has ended meanwhile
        return b""


def engine_of(stack, run):
    [(engine,)] = stack.query("SELECT engine FROM claim WHERE run_id = %s AND engine IS NOT NULL", run["id"])
    return engine


def test_gateway_and_engine_ran_where_the_package_is_and_the_platform_is_without_it(stack, run, repository, first):
    engine = engine_of(stack, run)
    environments = stack.home.root / "environments"
    assert Path(engine["argv"][0]).is_relative_to(environments)
    assert (engine["name"], engine["version"]) == ("calculator", "1.0.0")
    assert engine["sources"] == {"my-bench": f"git+{repository.as_uri()}@{first}"}
    assert {"my-bench", "vlmhyperbench-gateway", "vlmhyperbench-sdk"} <= engine["packages"].keys()
    assert run["gateways"]
    assert all(Path(python).is_relative_to(environments) for python in run["gateways"])
    done = subprocess.run([sys.executable, "-c", "import calculator"], capture_output=True, text=True)
    assert "ModuleNotFoundError" in done.stderr


def test_the_commit_is_part_of_the_run_and_stands_in_its_report(stack, run, first):
    [package] = stack.client.runs.get(run["id"]).spec.target.packages
    assert (package.name, package.commit) == ("my-bench", first)
    files = {file.name: file.id for file in stack.client.artifacts(run_id=run["id"]).items if file.kind == "report"}
    assert first in stack.client.artifact_content(files["report.html"]).decode()


@pytest.fixture(scope="module")
def second(repository, give, run):
    """A commit whose adapter cannot be imported, registered in place of the first."""
    (repository / "calculator.py").write_text(BROKEN)
    pinned = commit(repository)
    code, [added] = give("registry", "add", "package", "my-bench")
    assert (code, added["is_new"], added["origin"][-40:]) == (0, True, pinned)
    return pinned


@pytest.fixture(scope="module")
def failed(give, second):
    """A run by the second commit, in whose environment its adapter is."""
    code, found = ask(give)
    assert (code, found["state"]) == (4, "FAILED")
    return found


def test_an_adapter_that_raises_at_import_fails_the_run_at_once_by_its_name(stack, failed):
    [(outcome, fails)] = stack.query(
        "SELECT outcome, fails FROM job WHERE run_id = %s AND kind = 'GENERATE'", failed["id"]
    )
    assert (outcome["code"], fails) == ("plugin_failure", 1)
    assert "'calculator' (calculator:Calculator of my-bench 1.0.0)" in outcome["message"]
    assert "RuntimeError: this adapter needs a machine of 1988" in outcome["message"]


def test_the_first_run_is_repeated_with_the_commit_that_it_had(stack, give, run, first, second):
    code, again = give("rerun", run["id"], "--force", "inference")
    assert (code, again["state"]) == (0, "SUCCEEDED"), stack.logs()
    assert engine_of(stack, again)["sources"]["my-bench"].endswith(first)


def test_its_environments_are_listed_with_the_backend_and_removed_together(give, failed):
    _, rows = give("envs", "list")
    assert [row["state"] for row in rows if "backends/calculator" in row["entries"]] == ["ready"]
    code, removed = give("envs", "remove", "calculator")
    assert code == 0, removed
    _, rows = give("envs", "list")
    assert [row["state"] for row in rows if "backends/calculator" in row["entries"]] == ["not built"]


def test_adapter_and_engine_may_have_an_environment_each(stack, give):
    """The adapter of llama.cpp from its folder, and llama.cpp itself elsewhere, read the tiny model's pages."""
    folder = ROOT / "shared" / "plugins" / "llamacpp"
    code, [added] = give("registry", "add", "package", "vlmhyperbench-llamacpp", "--path", str(folder))
    assert (code, added["plugins"]) == (0, {"backends": ["llamacpp"]})
    own = stack.home.root / "registries"
    (own / "backends" / "apart.yaml").write_text(APART)
    model = (ROOT / "registries" / "models" / "tiny-doc-vlm.yaml").read_text()
    (own / "models" / "tiny-packaged.yaml").write_text(model.replace("[llamacpp]", "[apart]"))
    code, found = give("run", "--model", "tiny-packaged", "--task", "document-qa", "--limit", "4")
    assert (code, found["state"], found["failed"]) == (0, "SUCCEEDED", 0), stack.logs()
    engine = engine_of(stack, found)
    assert engine["packages"] == {"xllamacpp": version("xllamacpp")}
    assert {"vlmhyperbench-llamacpp", "vlmhyperbench-gateway"} <= engine["adapter_packages"].keys()
    assert "xllamacpp" not in engine["adapter_packages"]
    assert engine["sources"]["vlmhyperbench-llamacpp"].startswith(f"{folder} sha256:")
