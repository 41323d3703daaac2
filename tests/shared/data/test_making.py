"""Recipes with llama.cpp's own quantiser: made once, by one process, whole or not at all, and cached by the inputs."""

from __future__ import annotations

import asyncio
import hashlib
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from vlmhyperbench.data.fetched import Fetched
from vlmhyperbench.data.fetching import open_cache
from vlmhyperbench.data.making import make
from vlmhyperbench.data.repositories import Arrival
from vlmhyperbench.data.weights import cached_files, verify
from vlmhyperbench.domain.environments import VirtualenvSpec
from vlmhyperbench.domain.packages import GitPackage
from vlmhyperbench.domain.recipes import QUANTIZER, ModelFile, RecipeSpec
from vlmhyperbench.errors import Conflict, InvalidInput, NotFound, Unavailable
from vlmhyperbench.settings import Settings
from vlmhyperbench_tiny_doc_vlm import path, sha256

F16 = "tiny-doc-vlm-f16.gguf"
PROGRAM = """
import asyncio, sys
from pathlib import Path
from vlmhyperbench.data.making import make
from vlmhyperbench.data.repositories import Arrival
from vlmhyperbench.domain.recipes import RecipeSpec
from vlmhyperbench.settings import Settings

async def main():
    async def tell(step, _):
        print(step, flush=True)
        if step == "quantizing" and sys.argv[4] == "stops":
            await asyncio.sleep(3600)
    settings = Settings(home=Path(sys.argv[1]), models_dir=Path(sys.argv[2]))
    made = await make(RecipeSpec.model_validate_json(sys.argv[3]), settings, Arrival(), tell=tell)
    print(made.sha256["weights.gguf"], flush=True)

asyncio.run(main())
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home whose environment of the quantiser is built once."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture
def settings(home: Path, tmp_path: Path) -> Settings:
    return Settings(home=home, models_dir=tmp_path / "models")


def recipe(source: Path | None = None, **changed: object) -> RecipeSpec:
    file, digest = (path(F16, "0.2"), sha256(F16, "0.2"))
    if source is not None:
        file, digest = source, hashlib.sha256(source.read_bytes()).hexdigest()
    given: dict[str, object] = {
        "source": "tiny",
        "quantize": "Q8_0",
        "quantizer": QUANTIZER,
        "sources": (ModelFile(role="weights", location=str(file), sha256=digest),),
    }
    return RecipeSpec.model_validate({**given, **changed})


def made_by(spec: RecipeSpec, settings: Settings) -> tuple[Fetched, list[str]]:
    steps: list[str] = []

    async def tell(step: str, _: int | None) -> None:
        steps.append(step)

    return asyncio.run(make(spec, settings, Arrival(), tell=tell)), steps


def start(spec: RecipeSpec, settings: Settings, how: str = "ends") -> subprocess.Popen[str]:
    arguments = [str(settings.home), str(settings.models_dir), spec.model_dump_json(), how]
    return subprocess.Popen([sys.executable, "-c", PROGRAM, *arguments], stdout=subprocess.PIPE, text=True)


def test_a_model_is_quantised_once_and_found_by_its_inputs(settings: Settings, tmp_path: Path) -> None:
    first, steps = made_by(recipe(), settings)
    assert "quantizing" in steps
    assert made_by(recipe(), settings) == (first, [])
    elsewhere = shutil.copy(path(F16, "0.2"), tmp_path / "same.gguf")
    assert made_by(recipe(elsewhere), settings) == (first, [])
    weights = recipe().made("weights")
    pinned = ModelFile(role="weights", location=weights.location, sha256=first.sha256["weights.gguf"])
    cache = open_cache(settings)
    assert verify(pinned, cache).read_bytes()[:4] == b"GGUF"
    assert first.size_bytes < 0.6 * path(F16, "0.2").stat().st_size
    cache.remove(first)
    with pytest.raises(NotFound) as gone:
        verify(pinned, cache)
    assert gone.value.code == "not_fetched"
    again, _ = made_by(recipe(), settings)
    assert again.sha256 == first.sha256  # llama.cpp's quantisation gives the same bytes


def test_the_key_is_of_contents_parameters_and_tools(tmp_path: Path) -> None:
    other = tmp_path / "other.gguf"
    other.write_bytes(path(F16, "0.2").read_bytes() + b"\x00")
    newer = VirtualenvSpec(requirements=("cyllama==99",))
    keys = {spec.key for spec in (recipe(), recipe(other), recipe(quantize="Q4_0"), recipe(quantizer=newer))}
    assert len(keys) == 4


@pytest.mark.parametrize("kind", ["Q4_0", "Q4_K_M"])
def test_other_types_are_smaller(settings: Settings, kind: str) -> None:
    made, _ = made_by(recipe(quantize=kind), settings)
    assert made.size_bytes < path("tiny-doc-vlm-q8_0.gguf", "0.2").stat().st_size


def test_two_processes_make_it_once(settings: Settings) -> None:
    made_by(recipe(quantize="Q4_0"), settings)  # so that the environment is there
    with start(recipe(), settings) as first, start(recipe(), settings) as second:
        told = [process.communicate(timeout=120)[0].split() for process in (first, second)]
    assert told[0][-1] == told[1][-1]
    assert [step for steps in told for step in steps].count("quantizing") == 1


def test_a_process_that_waits_for_another_says_so_and_makes_it_if_the_other_dies(settings: Settings) -> None:
    with start(recipe(), settings, "stops") as builder:
        assert builder.stdout is not None
        for line in builder.stdout:
            if line == "quantizing\n":
                break
        with start(recipe(), settings) as waiting:
            assert waiting.stdout is not None
            assert waiting.stdout.readline() == "waiting\n"
            builder.kill()
            steps = waiting.communicate(timeout=120)[0].split()
    assert "quantizing" in steps


def test_what_a_killed_process_left_is_never_used(settings: Settings) -> None:
    cache = open_cache(settings)
    with start(recipe(), settings, "stops") as builder:
        assert builder.stdout is not None
        for line in builder.stdout:
            if line == "quantizing\n":
                break
        [half_built] = settings.models_dir.glob("made/*/.making")
        (half_built / "weights.gguf").write_bytes(b"GGUF, but not all of it")
        builder.send_signal(signal.SIGKILL)
    assert cache.get_made(recipe().key, ["weights.gguf"]) is None
    assert cache.has([recipe().made("weights")]) is False
    made, _ = made_by(recipe(), settings)
    assert made.size_bytes > 10**6
    assert list(settings.models_dir.glob("made/*/.making")) == []


def test_a_source_that_is_not_the_pinned_one_is_refused(settings: Settings, tmp_path: Path) -> None:
    source = tmp_path / "source.gguf"
    source.write_bytes(path(F16, "0.2").read_bytes())
    spec = recipe(source)
    source.write_bytes(source.read_bytes()[:-1])
    with pytest.raises(Conflict) as refused:
        made_by(spec, settings)
    assert refused.value.code == "wrong_hash"


def test_a_tool_of_a_private_repository_is_read_with_the_secret_of_this_machine(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)
    settings.secrets_dir.mkdir()
    secret = settings.secrets_dir / "MY_TOKEN"
    secret.touch(mode=0o600)
    secret.write_text("a-very-hidden-token")
    nobody = "https://127.0.0.1:9/tools.git"
    tools = GitPackage(name="tools", url=nobody, commit="0" * 40, token_secret="MY_TOKEN")
    with pytest.raises(Unavailable) as refused:  # where the secret is not found, the repository is not asked
        made_by(recipe(quantizer=VirtualenvSpec(packages=(tools,))), settings)
    assert refused.value.code == "git_unreachable"


def test_what_the_tool_refuses_ends_with_its_log(settings: Settings, tmp_path: Path) -> None:
    source = tmp_path / "source.gguf"
    source.write_bytes(path(F16, "0.2").read_bytes()[:100_000])
    with pytest.raises(InvalidInput) as refused:
        made_by(recipe(source), settings)
    assert refused.value.code == "recipe_failed"
    assert "tiny cannot be quantised" in refused.value.message
    assert "RuntimeError" in refused.value.message
    assert open_cache(settings).models() == []


def test_what_is_made_is_evicted_like_what_is_fetched_but_not_in_use(settings: Settings) -> None:
    q4, _ = made_by(recipe(quantize="Q4_0"), settings)
    source_bytes = path(F16, "0.2").stat().st_size
    tight = settings.model_copy(update={"models_max_bytes": source_bytes + q4.size_bytes // 2})
    pinned = ModelFile(role="weights", location=recipe(quantize="Q4_0").made("weights").location, sha256="0" * 64)
    with open_cache(tight).in_use(cached_files([pinned])), pytest.raises(Conflict) as full:
        made_by(recipe(), tight)
    assert full.value.code == "no_room"
    q8, _ = made_by(recipe(), tight)
    assert open_cache(tight).models() == [q8]
