"""The house keeps its rules: sizes, names, public faces, no path of a machine, no registry's host."""

import ast
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest
import tomllib

from tests.architecture.members import PYPROJECT, derived

ROOT = Path(__file__).parents[2]
MEMBERS = sorted(
    {
        ROOT / "pyproject.toml",
        *ROOT.glob("shared/*/pyproject.toml"),
        *ROOT.glob("shared/plugins/*/pyproject.toml"),
        *ROOT.glob("services/*/pyproject.toml"),
    }
)
BARE_IMPORT = "import sys; before = set(sys.modules); import {module}; print(*sorted(set(sys.modules) - before))"


def _files(*patterns: str) -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *patterns],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    return [ROOT / line for line in listed.stdout.splitlines() if (ROOT / line).is_file()]


def _project(pyproject: Path) -> dict[str, object]:
    return tomllib.loads(pyproject.read_text())["project"]


def test_no_file_is_longer_than_400_lines():
    long = {str(path): lines for path in _files("*.py") if (lines := len(path.read_text().splitlines())) > 400}
    assert not long


def test_every_module_says_in_its_first_line_why_it_exists():
    def is_silent(path: Path) -> bool:
        tree = ast.parse(path.read_text())
        return bool(tree.body) and not ast.get_docstring(tree)

    assert not [
        str(path) for path in _files("shared/*.py", "services/*.py") if "tests" not in path.parts and is_silent(path)
    ]


@pytest.mark.parametrize("pyproject", MEMBERS, ids=lambda path: str(path.parent.relative_to(ROOT)))
def test_a_folder_names_its_distribution_and_its_package(pyproject):
    name = _project(pyproject)["name"]
    if pyproject.parent == ROOT:
        assert name == "vlmhyperbench"
        return
    folder = pyproject.parent.name
    assert name == "vlmhyperbench-" + folder.replace("_", "-")
    assert (pyproject.parent / f"vlmhyperbench_{folder}" / "__init__.py").is_file()


def test_every_service_and_plugin_stands_in_the_import_contracts(tmp_path):
    text = PYPROJECT.read_text()
    assert derived(text) == text, "Run: make members"
    (tmp_path / "shared/plugins/new_plugin").mkdir(parents=True)
    (tmp_path / "shared/plugins/new_plugin/pyproject.toml").touch()
    added = tomllib.loads(derived(text, tmp_path))["tool"]["importlinter"]
    assert "vlmhyperbench_new_plugin" in added["root_packages"]
    (plugins,) = [contract for contract in added["contracts"] if contract["name"] == "Plugins import the SDK only"]
    assert plugins["source_modules"] == ["vlmhyperbench_new_plugin"]


def test_every_service_and_plugin_is_installed_with_the_embedded_stack(tmp_path):
    for folder, extras in (("shared/plugins/new_plugin", ""), ("services/new_service", "engine = []")):
        (tmp_path / folder).mkdir(parents=True)
        text = f'[project]\nversion = "0.1.0"\n[project.optional-dependencies]\n{extras}\n'
        (tmp_path / folder / "pyproject.toml").write_text(text)
    added = tomllib.loads(derived(PYPROJECT.read_text(), tmp_path))["project"]["optional-dependencies"]["embedded"]
    assert added[-2:] == ["vlmhyperbench-new-plugin>=0.1,<0.2", "vlmhyperbench-new-service[engine]>=0.1,<0.2"]


def test_a_new_room_is_closed_to_gateway_and_load_generator(tmp_path):
    rooms = tmp_path / "shared/vlmhyperbench"
    (rooms / "cellar").mkdir(parents=True)
    for name in ("cellar/__init__.py", "attic.py", "errors.py", "__init__.py"):
        (rooms / name).touch()
    contracts = tomllib.loads(derived(PYPROJECT.read_text(), tmp_path))["tool"]["importlinter"]["contracts"]
    (closed,) = [contract for contract in contracts if contract["name"].startswith("Gateway and load generator use")]
    assert closed["forbidden_modules"] == ["vlmhyperbench.attic", "vlmhyperbench.cellar"]


def test_names_of_distributions_are_unique():
    names = [_project(path)["name"] for path in MEMBERS]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("module", ["vlmhyperbench", "vlmhyperbench.domain", "vlmhyperbench.analysis"])
def test_importing_a_pure_room_imports_nothing_else(module):
    printed = subprocess.run(
        [sys.executable, "-c", BARE_IMPORT.format(module=module)], check=True, capture_output=True, text=True
    ).stdout.split()
    assert {name for name in printed if not name.startswith("vlmhyperbench")} <= {"__editable___vlmhyperbench_finder"}


def test_the_sdk_needs_the_standard_library_only():
    assert _project(ROOT / "shared/sdk/pyproject.toml")["dependencies"] == []
    for path in _files("shared/sdk/vlmhyperbench_sdk/*.py"):
        outside = _imports(path) - set(sys.stdlib_module_names) - {"vlmhyperbench_sdk"}
        assert not outside, f"{path} imports {outside}"


def test_only_repositories_speak_sql():
    """`local/postgres.py` starts the server and makes its database; everything else goes through `db/`."""
    speakers = [
        str(path.relative_to(ROOT))
        for path in _files("shared/*.py", "services/*.py")
        if "tests" not in path.parts and _imports(path) & {"sqlalchemy", "sqlmodel", "psycopg", "asyncpg"}
    ]
    outside = [name for name in speakers if not name.startswith("shared/vlmhyperbench/db/")]
    assert outside == ["shared/vlmhyperbench/local/postgres.py"]


def _imports(path: Path) -> set[str]:
    """Return the packages that a file imports, wherever in it."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    return {name.split(".")[0] for name in names}


def test_public_names_are_sorted_and_exist():
    for path in _files("shared/**/__init__.py", "services/**/__init__.py"):
        tree = ast.parse(path.read_text())
        for node in tree.body:
            if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
                names = ast.literal_eval(node.value)
                module = importlib.import_module(_module_of(path))
                assert names == sorted(names), path
                assert all(hasattr(module, name) for name in names), path


def _module_of(path: Path) -> str:
    parts = list(path.parent.relative_to(ROOT).parts)
    start = next(i for i, part in enumerate(parts) if part.startswith("vlmhyperbench"))
    return ".".join(parts[start:])


def test_no_committed_file_names_a_path_of_a_machine_or_a_registry():
    forbidden = re.compile(
        r"(^|[\s\"'(=])/(work|root|farm)/|https?://(pypi|files\.pythonhosted|registry\.npmjs|deb\.debian)"
    )
    hits = [
        f"{path}: {line.strip()[:100]}"
        for path in _files()
        if path.suffix not in {".gguf", ".safetensors", ".png"} and path != Path(__file__)
        for line in path.read_text(errors="replace").splitlines()
        if forbidden.search(line)
    ]
    assert not hits


def test_every_pin_has_a_hash():
    for name in ("uv", "platform", "dev"):
        text = (ROOT / f"requirements/{name}.txt").read_text()
        pins = re.findall(r"^[a-z0-9][\w.\-\[\]]*==", text, flags=re.MULTILINE | re.IGNORECASE)
        assert pins
        assert len(re.findall(r"--hash=sha256:", text)) >= len(pins)


def test_decision_records_are_numbered_without_gaps_and_their_titles_say_the_number():
    records = sorted((ROOT / "docs/decisions").glob("*.md"))
    for number, path in enumerate(records, start=1):
        assert path.name.startswith(f"{number:04}-"), path.name
        assert path.read_text().startswith(f"# {number}. "), path.name


def test_every_link_between_pages_leads_to_a_file():
    dead = [
        (str(path), link)
        for path in _files("*.md")
        for link in re.findall(r"\]\(([^)\s]+)\)", path.read_text())
        if not re.match(r"[a-z]+:|#", link) and not (path.parent / link.split("#")[0]).exists()
    ]
    assert not dead


def test_every_link_to_a_part_of_a_page_leads_to_a_heading():
    dead = [
        (str(path), link)
        for path in _files("*.md")
        for link in re.findall(r"\]\(((?![a-z]+:)[^)\s]*#[^)\s]+)\)", path.read_text())
        if link.split("#")[1] not in _anchors(path.parent / link.split("#")[0] if link[0] != "#" else path)
    ]
    assert not dead


def _anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as its viewers write them: lower case, no punctuation, hyphens."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ +(.+)$", text, flags=re.MULTILINE)
    words = (re.sub(r"\]\([^)]*\)", "", heading.lower()) for heading in headings)
    return {re.sub(r"[^\w -]", "", heading).replace(" ", "-") for heading in words}


def test_every_page_stands_in_the_index_of_the_documentation():
    index = (ROOT / "docs/README.md").read_text()
    links = {link.split("#")[0] for link in re.findall(r"\]\(([^)\s]+)\)", index)}
    assert not {path.name for path in (ROOT / "docs").glob("*.md")} - links - {"README.md"}


def test_the_change_log_says_nothing_twice():
    lines = [line for line in (ROOT / "CHANGELOG.md").read_text().splitlines() if line]
    assert len(lines) == len(set(lines)), "a union merge repeats lines where a branch had moved them"
