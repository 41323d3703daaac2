"""Which adapters a gateway may import, and what its engines are started with: one value that it is handed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from vlmhyperbench_sdk.gateway import ENVIRONMENT_VARIABLE, EngineEnvironment, LoadRequest
from vlmhyperbench_sdk.testing.gateways import KEY, GatewayProcess


@pytest.fixture
def stranger(tmp_path: Path) -> Path:
    """A folder with an installed package whose adapter drives the simulated engine."""
    package = tmp_path / "stranger_adapter"
    package.mkdir()
    (package / "__init__.py").write_text(
        "from vlmhyperbench_simulated.adapter import Simulated\n\n\nclass Adapter(Simulated):\n    pass\n"
    )
    info = tmp_path / "stranger_adapter-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: stranger-adapter\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[vlmhyperbench.backends]\nstranger = stranger_adapter:Adapter\n")
    return tmp_path


def test_an_adapter_that_is_not_allowed_is_not_imported(stranger: Path) -> None:
    (stranger / "stranger_adapter" / "__init__.py").write_text("raise SystemExit('imported')")
    with GatewayProcess(env={"PYTHONPATH": str(stranger)}) as process:
        answer = process.load(LoadRequest(model="m", backend_class="stranger"))
        assert (answer.status, answer.error_code()) == (400, "adapter_not_allowed")
        assert "VLMHB_ALLOWED_ADAPTERS" in answer.body.decode(), "the cure names the setting"


def test_an_adapter_of_another_package_is_used_if_the_environment_allows_it(stranger: Path) -> None:
    allowed = EngineEnvironment(adapters=("stranger-adapter",), variables={"MARK": "from-environment"})
    with GatewayProcess(env={"PYTHONPATH": str(stranger), **allowed.to_variables()}) as process:
        answer = process.load(LoadRequest(model="m", backend_class="stranger"))
        assert answer.status == 200, answer.body
        pid = answer.json()["engine"]["pid"]
        variables = psutil.Process(pid).environ()
        assert variables["MARK"] == "from-environment"
        assert ENVIRONMENT_VARIABLE not in variables
        refused = process.load(LoadRequest(model="m", backend_class="simulated", replace=True))
        assert refused.error_code() == "adapter_not_allowed", "the value says all that is allowed"


def test_an_engine_leaves_no_temporary_files_behind(tmp_path: Path) -> None:
    with GatewayProcess(env={"TMPDIR": str(tmp_path)}) as process:
        pid = process.load(LoadRequest(model="m", backend_class="simulated")).json()["engine"]["pid"]
        folder = Path(psutil.Process(pid).environ()["TMPDIR"])
        assert folder.parent == tmp_path
        (folder / "socket").touch()
        assert process.unload().status == 200
        assert not folder.exists()


@pytest.mark.parametrize("module", ["vlmhyperbench_gateway", "vlmhyperbench_gateway.bodies"])
@pytest.mark.parametrize("text", ["{", "[]", '{"python": "python"}', '{"adapters": [], "rights": "all"}'])
def test_a_malformed_environment_is_refused_at_the_start(module: str, text: str) -> None:
    environment = {**os.environ, "VLMHB_GATEWAY_KEY": KEY, ENVIRONMENT_VARIABLE: text}
    argv = [sys.executable, "-m", module]
    ended = subprocess.run(argv, env=environment, input="", capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert ENVIRONMENT_VARIABLE in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    ("inherited", "expected"),
    [
        (None, {"CUBLAS_WORKSPACE_CONFIG": ":16:8", "OMP_NUM_THREADS": "1", "VLLM_ATTENTION_BACKEND": "TORCH_SDPA"}),
        (("OMP_*", "VLLM_*", "HOME"), {"OMP_NUM_THREADS": "1", "VLLM_ATTENTION_BACKEND": "TORCH_SDPA"}),
    ],
)
def test_the_settings_that_an_engine_takes_from_its_worker_s_environment_are_stated(
    inherited: tuple[str, ...] | None, expected: dict[str, str]
) -> None:
    of_worker = {
        "OMP_NUM_THREADS": "1",
        "VLLM_ATTENTION_BACKEND": "TORCH_SDPA",
        "CUBLAS_WORKSPACE_CONFIG": ":16:8",
        "OMP_PLACES": "cores",  # the environment of the engines sets it itself
        "VLLM_CACHE_ROOT": "/cache",
        "CUDA_VISIBLE_DEVICES": "",
        "VLLM_API_KEY": "a-credential",
        "HOME": "/home",
    }
    environment = EngineEnvironment(variables={"OMP_PLACES": "threads"}, inherited=inherited)
    with GatewayProcess(env={**of_worker, **environment.to_variables()}) as process:
        answer = process.load(LoadRequest(model="m", backend_class="simulated"))
        assert answer.status == 200, answer.body
        engine = answer.json()["engine"]
        stated = {name: value for name, value in engine["variables"].items() if name in of_worker}
        assert stated == expected
        started_with = psutil.Process(engine["pid"]).environ()
        assert {name: started_with.get(name) for name in expected} == expected
