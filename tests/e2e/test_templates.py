"""A metric, a dataset and a prompt by template, from one git repository: registered, pinned, run and reported.

Nothing of them is installed beside the platform: each runs in an environment of its own. Then the same answers are
given by a Python function, and `evaluate` gives the same numbers.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.repositories import commit
from tests.support.stack import ROOT, running_stack
from vlmhyperbench.evaluation import evaluate

pytestmark = pytest.mark.timeout(900)  # environments are built from an index, on a machine that may be busy

RUN = {
    "target": {"model": "tiny-doc-vlm-q8"},
    "task": "own-sums",
    "metrics": ["own_overlap", "exact_match"],
    "prompt": "own_steps",
}


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """A git repository with three packages, each in a folder of its own, as `vlmhyperbench new` makes them."""
    folder = tmp_path_factory.mktemp("repository")
    for kind, name in (("metric", "own-overlap"), ("dataset", "own-sums"), ("prompt", "own-steps")):
        words = ["new", kind, name, "--folder", str(folder / name), "--json"]
        done = subprocess.run(
            [sys.executable, "-m", "vlmhyperbench.cli.main", *words], capture_output=True, text=True, check=True
        )
        made = json.loads(done.stdout)["data"]
        assert (made["kind"], made["distribution"]) == (kind, name)
    return folder


@pytest.fixture(scope="module")
def first(repository):
    return commit(repository)


@pytest.fixture(scope="module")
def stack(registries):
    with running_stack(registries) as found:
        yield found


@pytest.fixture(scope="module")
def give(program):
    """Run a command as a program, and return its exit code and the data, or the error, of its JSON."""

    def run(*words):
        done = program(*words)
        said = json.loads((done.stdout or done.stderr).splitlines()[-1])
        return done.returncode, said.get("data", said)

    return run


def register(give, repository, name, *more):
    return give("registry", "add", "package", name, "--git", repository.as_uri(), "--subdirectory", name, *more)


@pytest.fixture(scope="module")
def registered(stack, give, repository, first):
    """The packages, registered, and the entries of their templates, copied."""
    plugins = {}
    for name in ("own-overlap", "own-sums", "own-steps"):
        code, [added] = register(give, repository, name, "--ref", "main")
        assert (code, added["origin"]) == (0, f"git+{repository.as_uri()}@{first}#subdirectory={name}")
        plugins |= added["plugins"]
        shutil.copytree(repository / name / "registries", stack.home.root / "registries", dirs_exist_ok=True)
    assert plugins == {"metrics": ["own_overlap"], "datasets": ["own_sums"], "prompts": ["own_steps"]}
    code, checked = give("registry", "validate")
    assert code == 0, checked


@pytest.fixture
def unchanged(give, registered, repository, first):
    """What a test changes in the repository, and registers of it, is as before for the next one, in any order."""
    yield
    subprocess.run(["git", "-C", repository, "reset", "--quiet", "--hard", first], check=True)
    for name in ("own-overlap", "own-sums", "own-steps"):
        assert register(give, repository, name, "--ref", "main")[0] == 0


@pytest.fixture(scope="module")
def run(stack, registered):
    entry = {**RUN, "task": "own_sums"}
    found = stack.wait(stack.client.runs.create(entry).id, timeout_s=600)
    assert (found.state, found.reason) == ("SUCCEEDED", None), stack.logs()
    return stack.client.runs.get(found.id)


def test_the_samples_are_those_of_the_dataset_in_its_own_environment(stack, run):
    results = stack.client.results(run_id=run.id, limit=100).items
    assert len(results) == 12
    assert (results[0].key, results[0].references) == ("sum-1-1", ["2"])
    asked = stack.client.runs.sample(run.id, f"{results[0].phase}.{results[0].ordinal}")
    assert asked.user_prompt == "What is 1 + 1? Answer with the number."
    assert asked.system_prompt == "Think in at most 3 steps."
    done = subprocess.run([sys.executable, "-c", "import own_sums"], capture_output=True, text=True, check=False)
    assert "ModuleNotFoundError" in done.stderr


def test_the_commit_is_in_the_manifest_and_in_the_spec_of_everything_that_came_from_the_repository(
    stack, run, repository, first
):
    manifest = stack.client.runs.manifest(run.id)
    environments = manifest.model_dump(mode="json")["plugins"]["environments"]
    expected = {"dataset own_sums": "own-sums", "prompt own_steps": "own-steps", "own_overlap@v1": "own-overlap"}
    for name, distribution in expected.items():
        origin = f"git+{repository.as_uri()}@{first}#subdirectory={distribution}"
        assert environments[name]["sources"] == {distribution: origin}
    assert environments["own_overlap@v1"]["packages"]["own-overlap"] == f"0.1.0 (commit {first})"
    assert environments["dataset own_sums"]["packages"]["own-sums"] == f"0.1.0 (commit {first})"
    assert [package.commit for package in run.spec.dataset.environment.packages] == [first]


def test_the_report_has_the_metric_with_its_interval(stack, run):
    files = {file.name: file.id for file in stack.client.artifacts(run_id=run.id).items}
    report = json.loads(stack.client.artifact_content(files["report.json"]))
    [row] = report["headline"]["rows"]
    assert set(row["metrics"]) == {"own_overlap", "exact_match"}
    assert row["metrics"]["own_overlap"]["n"] == 12
    assert first_line(stack.client.artifact_content(files["report.html"])) == "<!doctype html>"


def first_line(content):
    return content.decode().splitlines()[0].lower()


def test_a_function_that_gives_the_same_answers_has_the_same_scores_and_intervals(stack, run, monkeypatch):
    monkeypatch.setenv("VLMHB_HOME", str(stack.home.root))
    monkeypatch.setenv("VLMHB_REGISTRIES", str(ROOT / "registries"))
    results = stack.client.results(run_id=run.id, limit=100).items
    answers = {(result.question, "Think in at most 3 steps."): result.text for result in results}

    def answer(prompt, images, *, system=None):
        assert images == []
        return answers[prompt, system]

    evaluation = evaluate("own_sums", answer, metrics=RUN["metrics"], prompt="own_steps", concurrency=3)
    assert numbers(evaluation.metrics()) == numbers(run.metrics())
    assert numbers(evaluation.metrics(by="question_type")) == numbers(run.metrics(by="question_type"))
    comparison = evaluation.compare(run)
    assert [delta.difference for delta in comparison.metrics.values()] == [0.0, 0.0]


def numbers(rows):
    columns = ("metric", "group", "value", "ci_low", "ci_high", "n", "n_without_value")
    return [[getattr(row, name) for name in columns] for row in rows]


def test_a_document_task_scores_a_function_like_the_run_whose_answers_it_gives(stack, monkeypatch):
    monkeypatch.setenv("VLMHB_HOME", str(stack.home.root))
    monkeypatch.setenv("VLMHB_REGISTRIES", str(ROOT / "registries"))
    entry = {"target": {"model": "tiny-doc-vlm-q8"}, "task": "document-qa", "limit": 24}
    ended = stack.wait(stack.client.runs.create(entry).id, timeout_s=600)
    assert ended.state == "SUCCEEDED", stack.logs()
    run = stack.client.runs.get(ended.id)
    results = stack.client.results(run_id=run.id, limit=100).items
    answers = {(result.question, result.key.rpartition("/")[0]): result.text for result in results}
    documents = {tuple(result.images): result.key.rpartition("/")[0] for result in results}

    async def answer(prompt, images):
        return answers[prompt, documents[tuple(map(sha256_of, images))]]

    evaluation = evaluate("document-qa", answer, limit=24, concurrency=4)
    assert numbers(evaluation.metrics()) == numbers(run.metrics())
    for column in ("doc_class", "question_type", "field"):
        assert numbers(evaluation.metrics(by=column)) == numbers(run.metrics(by=column))
    assert [(evaluation.summary.manifest_id,)] == stack.query("SELECT manifest_id FROM run WHERE id = %s", run.id)


def sha256_of(image):
    from hashlib import sha256

    return sha256(image).hexdigest()


def test_a_ref_that_moved_is_told_and_a_rerun_keeps_the_first_commit(stack, give, run, repository, first, unchanged):
    module = repository / "own-overlap" / "own_overlap.py"
    module.write_text(module.read_text() + "\n# A change.\n")
    second = commit(repository)
    code, [added] = give("registry", "add", "package", "own-overlap")
    assert (code, added["is_new"]) == (0, True)
    assert added["moved_from"] == f"git+{repository.as_uri()}@{first}#subdirectory=own-overlap"
    assert second in added["origin"]
    code, again = give("rerun", str(run.id))
    assert (code, again["state"]) == (0, "SUCCEEDED"), stack.logs()
    spec = stack.client.runs.get(again["id"]).spec
    assert [package.commit for package in spec.dataset.environment.packages] == [first]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        pytest.param(
            ("own_sums.py", "raise RuntimeError('no such machine')\n"), "plugin_failure", id="does not import"
        ),
        pytest.param(("own_sums.py", "class Other: pass\n"), "not_found", id="has no such class"),
    ],
)
def test_a_package_that_cannot_be_used_fails_the_run_at_once_by_its_name(
    stack, give, registered, unchanged, repository, change, code
):
    file, text = change
    path = repository / "own-sums" / file
    kept = path.read_text()
    path.write_text(text)
    try:
        commit(repository)
        assert register(give, repository, "own-sums", "--ref", "main")[0] == 0
    finally:
        path.write_text(kept)
    ended = stack.wait(stack.client.runs.create({**RUN, "task": "own_sums"}).id, timeout_s=300)
    assert ended.state == "FAILED"
    [(outcome,)] = stack.query("SELECT outcome FROM job WHERE run_id = %s AND kind = 'INDEX'", ended.id)
    assert outcome["code"] == code
    assert "own_sums" in outcome["message"]
    assert os.environ.get("VLMHB_HOME")


def test_a_package_is_registered_only_where_its_own_tests_pass(stack, give, registered, unchanged, repository):
    assert register(give, repository, "own-overlap", "--ref", "main", "--test")[0] == 0
    page = repository / "own-overlap" / "docs" / "own_overlap.md"
    kept = page.read_text()
    page.write_text("# Another page\n")
    try:
        broken = commit(repository)
        code, said = register(give, repository, "own-overlap", "--ref", "main", "--test")
        assert (code, said["code"]) == (2, "package_tests_failed")
        assert "test_its_page_is_what_its_class_says" in said["message"]
    finally:
        page.write_text(kept)
    entry = stack.home.root / "registries" / "packages" / "own-overlap.yaml"
    assert broken not in entry.read_text()


def test_a_package_without_the_entry_point_is_refused_when_it_is_named(stack, give, registered, unchanged, repository):
    path = repository / "own-sums" / "pyproject.toml"
    kept = path.read_text()
    path.write_text(kept.partition("[project.entry-points")[0])
    try:
        commit(repository)
        code, [added] = register(give, repository, "own-sums", "--ref", "main")
        assert (code, added["plugins"]) == (0, {})
    finally:
        path.write_text(kept)
    code, said = give("registry", "validate")
    assert code == 2
    assert "own_sums" in json.dumps(said)
    commit(repository)
    assert register(give, repository, "own-sums", "--ref", "main")[0] == 0


def test_every_template_passes_its_own_tests_where_it_is_installed(tmp_path):
    """One environment has all five, as their READMEs install them; the SDK and the gateway are those of this tree."""
    uv, environment = ROOT / ".venvs" / "tools" / "bin" / "uv", tmp_path / "venv"
    packages = [tmp_path / kind for kind in ("metric", "dataset", "prompt", "backend", "report")]
    for folder in packages:
        words = ["new", folder.name, f"fresh-{folder.name}", "--folder", str(folder)]
        subprocess.run([sys.executable, "-m", "vlmhyperbench.cli.main", *words], capture_output=True, check=True)
    run_program(uv, "venv", "--quiet", "--python", sys.executable, environment)
    python = environment / "bin" / "python"
    ours = [f"{ROOT}/shared/sdk[conformance]", f"{ROOT}/shared/gateway", str(ROOT)]
    tested = [word for folder in packages for word in ("-e", f"{folder}[test]")]
    run_program(uv, "pip", "install", "--quiet", "--python", python, *ours, *tested)
    for folder in packages:
        for tool in (["ruff", "check"], ["ruff", "format", "--check"], ["pytest", "-q"]):
            run_program(python, "-m", *tool, ".", cwd=folder)


def run_program(*argv, cwd=None):
    clean = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "VIRTUAL_ENV"}}
    done = subprocess.run(
        [str(word) for word in argv],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        env={**clean, "UV_NO_SOURCES": "1"},
    )
    assert done.returncode == 0, f"{argv}\n{done.stdout}{done.stderr}"
    return Path(done.args[0])
