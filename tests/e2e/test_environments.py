"""The tiny model runs in an environment of its own, which the run that needs it builds and puts on record."""

import json
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.support.stack import ROOT, running_stack
from vlmhyperbench.registry.schemas import RunEntry

ENGINE = f"xllamacpp=={version('xllamacpp')}"
BACKEND = "default_backend_class: llamacpp\nenvironment: {{virtualenv: {{requirements: ['{requirement}']}}}}\n"


@pytest.fixture(scope="module")
def registries(registries):
    """Add a backend whose engine has an environment of its own, and one whose environment does not exist."""
    for name, requirement in {"apart": ENGINE, "nowhere": "xllamacpp==0.0.0.1"}.items():
        (registries / "backends" / f"{name}.yaml").write_text(BACKEND.format(requirement=requirement))
    model = (ROOT / "registries" / "models" / "tiny-doc-vlm.yaml").read_text()
    (registries / "models" / "tiny-apart.yaml").write_text(model.replace("[llamacpp]", "[apart]"))
    return registries


@pytest.fixture(scope="module")
def stack(registries):
    with running_stack(registries, SETTING_OF_THE_HOST="hidden") as found:
        yield found


@pytest.fixture(scope="module")
def listed(program):
    """Return what `envs list` says, by entries."""

    def rows():
        return {tuple(row["entries"]): row for row in json.loads(program("envs", "list").stdout)["data"]}

    return rows


def ask(stack, **target):
    entry = {
        "target": {"model": "tiny-apart", **target},
        "task": "document-qa",
        "dataset": {"name": "synthetic-documents", "params": {"documents": 2}},
    }
    return stack.wait(stack.client.runs.create(RunEntry.model_validate(entry)).id)


@pytest.fixture(scope="module")
def engine(stack, listed):
    """The engine of a run that had to build its environment, with the variables of its process."""
    assert listed()["backends/apart",]["state"] == "not built"
    run = ask(stack)
    assert (run.state, run.failed) == ("SUCCEEDED", 0), stack.logs()
    [(found,)] = stack.query("SELECT engine FROM claim WHERE run_id = %s AND engine IS NOT NULL", run.id)
    return found | {"variables": Path(f"/proc/{found['pid']}/environ").read_bytes().decode().split("\0")}


def test_the_engine_runs_in_its_environment_and_the_claim_has_its_packages(stack, engine):
    assert Path(engine["argv"][0]).is_relative_to(stack.home.root / "environments")
    assert engine["packages"] == {"xllamacpp": version("xllamacpp")}
    assert engine["version"] == version("xllamacpp")


def test_the_variables_of_the_host_do_not_reach_the_engine(engine):
    assert not [pair for pair in engine["variables"] if "hidden" in pair]
    assert [pair for pair in engine["variables"] if pair.startswith("PATH=")]


def test_another_run_uses_what_is_there(stack, engine, listed):
    built = stack.home.log_of("inference").read_text().count('"installing"')
    run = ask(stack, engine_params={"n_ctx": 2048})
    assert run.state == "SUCCEEDED"
    assert stack.home.log_of("inference").read_text().count('"installing"') == built == 1
    row = listed()["backends/apart",]
    assert (row["state"], row["packages"]) == ("in use", 1)


def test_an_environment_is_not_removed_under_a_loaded_engine(program, engine):
    done = program("envs", "remove", "apart")
    assert done.returncode == 3
    assert json.loads(done.stdout)["data"]["code"] == "in_use"


def test_a_requirement_that_does_not_exist_fails_the_run_at_once_with_the_installers_log(stack):
    run = ask(stack, backend="nowhere")
    assert run.state == "FAILED"
    [(outcome, fails)] = stack.query("SELECT outcome, fails FROM job WHERE run_id = %s AND kind = 'GENERATE'", run.id)
    assert fails == 1
    assert outcome["code"] == "environment_unresolvable"
    assert "xllamacpp==0.0.0.1" in outcome["message"]
    assert "unsatisfiable" in outcome["message"]
