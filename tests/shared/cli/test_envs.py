"""`vlmhyperbench envs` as a user runs it, and `serve` with an engine in an environment of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from tests.shared.cli.test_serve import serving
from tests.support.environments import lines_of_logs
from tests.support.wheels import make_wheel

ROOT = Path(__file__).parents[3]
VIRTUALENV = "environment: {{virtualenv: {{requirements: ['{requirement}']}}}}\n"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with backends of its own, and a folder of wheels in place of an index."""
    backends = tmp_path / "registries" / "backends"
    backends.mkdir(parents=True)
    (tmp_path / "wheels").mkdir()
    make_wheel(tmp_path / "wheels", "engine", "1.0")
    for name, requirement in {"built": "engine==1.0", "same": "engine==1.0", "missing": "engine==9.9"}.items():
        text = "default_backend_class: simulated\n" + VIRTUALENV.format(requirement=requirement)
        (backends / f"{name}.yaml").write_text(text)
    return tmp_path


def _envs(home: Path, *arguments: str) -> tuple[int, Any, str]:
    """Run a command; return its exit code, the data of its JSON, and stderr."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("VLMHB_", "PIP_"))}
    offline = {"UV_NO_INDEX": "1", "UV_FIND_LINKS": str(home / "wheels"), "UV_CACHE_DIR": str(home / "cache")}
    done = subprocess.run(
        [sys.executable, "-m", "vlmhyperbench.cli.main", "envs", *arguments, "--json"],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
        env={**environment, **offline, "VLMHB_HOME": str(home), "NO_COLOR": "1"},
    )
    assert "Traceback" not in done.stderr
    return done.returncode, json.loads(done.stdout)["data"], done.stderr


def _states(home: Path) -> dict[str, str]:
    """Return entries, or the key where there is none, → state; without the product's own entries."""
    own = {f"backends/{file.stem}" for file in (home / "registries" / "backends").glob("*.yaml")}
    rows = [row for row in _envs(home, "list")[1] if not row["entries"] or own.intersection(row["entries"])]
    return {" ".join(row["entries"]) or row["key"]: row["state"] for row in rows}


def test_an_environment_is_built_listed_and_removed(home: Path) -> None:
    declared = {"backends/built", "backends/same", "backends/missing"}
    assert _states(home) == dict.fromkeys(declared, "not built")
    code, [built], told = _envs(home, "build", "built")
    assert code == 0
    assert "Installing 1 package …" in told
    assert built["packages"] == {"engine": "1.0"}
    assert Path(built["python"]).is_relative_to(home / "environments")
    assert _states(home) == {"backends/built backends/same": "ready", "backends/missing": "not built"}
    before = lines_of_logs(home / "logs")
    code, [again], told = _envs(home, "build", "same")
    assert (code, again["key"], told) == (0, built["key"], "")
    assert again["seconds"] >= 0
    assert lines_of_logs(home / "logs") == before != {}, "no installer has run"
    assert _envs(home, "remove", "built")[:2] == (0, {"key": built["key"], "keys": [built["key"]]})
    assert _states(home) == dict.fromkeys(declared, "not built")


def test_an_environment_that_no_entry_declares_is_listed_and_removed_by_its_key(home: Path) -> None:
    key = _envs(home, "build", "built")[1][0]["key"]
    for name in ("built", "same"):
        (home / "registries" / "backends" / f"{name}.yaml").unlink()
    assert _states(home) == {"backends/missing": "not built", key: "ready"}
    assert _envs(home, "remove", key)[0] == 0
    assert _states(home) == {"backends/missing": "not built"}


@pytest.mark.parametrize(
    ("arguments", "exit_code", "code"),
    [
        (("build", "missing"), 2, "environment_unresolvable"),
        (("build", "llamacpp"), 2, "no_environment"),
        (("build", "unknown"), 2, "not_found"),
        (("remove", "built"), 2, "no_environment"),
        (("build", "built", "--model", "unknown"), 2, "not_found"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_cannot_be_done_has_a_code_and_a_cure(
    home: Path, arguments: tuple[str, ...], exit_code: int, code: str
) -> None:
    returned, refused, _ = _envs(home, *arguments)
    assert (returned, refused["code"]) == (exit_code, code)
    assert refused["cure"]


def test_a_model_is_served_by_an_engine_in_its_own_environment(tmp_path: Path) -> None:
    requirement = f"xllamacpp=={version('xllamacpp')}"
    shutil.copytree(ROOT / "registries", tmp_path / "registries")
    model = tmp_path / "registries" / "models" / "tiny-doc-vlm.yaml"
    model.write_text(model.read_text() + VIRTUALENV.format(requirement=requirement))
    with serving(tmp_path, "tiny-doc-vlm") as served:
        status, body = served.ask("GET", "/model/status", served.data["key"])
    assert status == 200
    assert Path(body["engine"]["argv"][0]).is_relative_to(tmp_path / "environments")
    assert body["engine"]["packages"] == {"xllamacpp": version("xllamacpp")}
