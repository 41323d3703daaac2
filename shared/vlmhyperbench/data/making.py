"""Make the files of a model by its recipe: once on a machine, in an environment of the tools' own."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from vlmhyperbench.data import tools
from vlmhyperbench.data.fetched import Fetched
from vlmhyperbench.data.fetching import fetch_missing, open_cache, sources_of
from vlmhyperbench.data.model_cache import ModelCache
from vlmhyperbench.data.repositories import Arrival
from vlmhyperbench.data.weights import cached_files, locate, verify
from vlmhyperbench.domain.environments import EnvironmentSpec
from vlmhyperbench.domain.recipes import MMPROJ, WEIGHTS, RecipeSpec
from vlmhyperbench.environments.base import Tell, tell_nobody
from vlmhyperbench.environments.preparing import prepared
from vlmhyperbench.environments.programs import Step, run_step
from vlmhyperbench.environments.wheels import Workshop
from vlmhyperbench.errors import InvalidInput
from vlmhyperbench.settings import Settings

_TOOLS = Path(tools.__file__).parent
_GGUF = b"GGUF"
_CONFIG = "config.json"
_SEES = frozenset({"vision_config", "vision_encoder"})
"""Keys of the configuration of a model that has an image projector."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bench:
    """What the steps of one recipe share."""

    recipe: RecipeSpec
    settings: Settings
    folder: Path
    """Where the files are made; removed at the end."""
    tell: Tell

    def path_of(self, role: str) -> Path:
        return self.folder / f"{role}.gguf"


async def make(recipe: RecipeSpec, settings: Settings, arrival: Arrival, *, tell: Tell = tell_nobody) -> Fetched:
    """Make the files of a recipe unless they are in the cache; its sources are fetched first.

    Args:
        recipe: The pinned recipe.
        settings: Where cache, environments and secrets of this machine are.
        arrival: Counts bytes that are fetched.
        tell: Is told what takes time: `waiting`, `converting`, `quantizing` and the steps of an environment.

    Raises:
        InvalidInput: a tool refuses the model; the message ends with its log.
        NotFound: a source is gone.
        Conflict: a source is not the pinned one, or there is no room.
        Denied: a source may not be fetched.
        Unavailable: a source or a package index does not answer, or the disk is full.
    """
    cache = open_cache(settings)
    names = [recipe.made(WEIGHTS).name]
    if (made := cache.get_made(recipe.key, names)) is not None:
        return made
    await asyncio.to_thread(fetch_missing, recipe.sources, cache, sources_of(settings), arrival)
    async with _making(recipe, cache, tell) as folder:
        if (made := cache.get_made(recipe.key, names)) is not None:  # another process has made them meanwhile
            return made
        bench = _Bench(recipe=recipe, settings=settings, folder=folder, tell=tell)
        await _run(bench)
        return await asyncio.to_thread(cache.record_made, recipe.key, folder)


@asynccontextmanager
async def _making(recipe: RecipeSpec, cache: ModelCache, tell: Tell) -> AsyncIterator[Path]:
    """Hold the sources and the place of the result, and yield an empty folder for what is made."""
    with ExitStack() as held:
        held.enter_context(cache.in_use(cached_files(recipe.sources)))
        sources = [locate(file.location, cache) for file in recipe.sources]
        # Each step writes at most what the sources take, but for a conversion to 32 bits.
        steps = 2 * (recipe.convert == "F32") + (recipe.convert is not None) + (recipe.quantize is not None)
        size_bytes = steps * sum(path.stat().st_size for path in sources)
        if cache.is_being_made(recipe.key):
            await tell("waiting", None)
        yield await asyncio.to_thread(held.enter_context, cache.making(recipe.key, size_bytes))


async def _run(bench: _Bench) -> None:
    recipe, cache = bench.recipe, open_cache(bench.settings)
    paths = {file.role: await asyncio.to_thread(verify, file, cache) for file in recipe.sources}
    weights = paths.get(WEIGHTS)
    if recipe.converter is not None:
        weights = await _convert(bench, recipe.converter, paths)
    if recipe.quantize is not None and recipe.quantizer is not None:
        half = bench.folder / "unquantized.gguf"
        if recipe.convert is not None and weights is not None:
            weights = weights.rename(half)
        await bench.tell("quantizing", None)
        arguments = [str(weights), str(bench.path_of(WEIGHTS)), recipe.quantize]
        await _tool(bench, recipe.quantizer, "quantize", arguments, f"{recipe.source} cannot be quantised")
        half.unlink(missing_ok=True)
    for path in bench.folder.glob("*.gguf"):
        with path.open("rb") as file:
            if file.read(len(_GGUF)) != _GGUF:
                raise InvalidInput(f"The tool wrote no GGUF file to {path}.", cure="Correct the recipe.", code="recipe")


async def _convert(bench: _Bench, converter: EnvironmentSpec, paths: dict[str, Path]) -> Path:
    """Convert a model in the format of transformers, and its image projector if it has one."""
    recipe, folder = bench.recipe, bench.folder / bench.recipe.source  # the converter may write its name into the file
    folder.mkdir()
    for role, path in paths.items():
        (folder / role).symlink_to(path)
    config = json.loads(paths[_CONFIG].read_text(encoding="utf-8"))
    if recipe.architecture is not None:
        text = config.get("text_config", config)
        text["architectures"] = [recipe.architecture]
        (folder / _CONFIG).unlink()
        (folder / _CONFIG).write_text(json.dumps(config), encoding="utf-8")
    await bench.tell("converting", None)
    wanted: list[tuple[str, str, tuple[str, ...]]] = [(WEIGHTS, (recipe.convert or "").lower(), ())]
    if _SEES & set(config):
        wanted.append((MMPROJ, "f16", ("--mmproj",)))
    for role, kind, options in wanted:
        arguments = [recipe.pre_tokenizer or "-", str(folder), "--model-name", recipe.source, *options]
        arguments += ["--outtype", kind, "--outfile", str(bench.path_of(role))]
        await _tool(bench, converter, "convert", arguments, f"{recipe.source} cannot be converted")
    shutil.rmtree(folder)
    return bench.path_of(WEIGHTS)


async def _tool(bench: _Bench, spec: EnvironmentSpec, program: str, arguments: Sequence[str], what: str) -> None:
    workshop = Workshop.of(bench.settings)
    async with prepared(spec, workshop, tell=bench.tell) as ready:
        await run_step(
            Step(
                argv=[ready.python, "-I", str(_TOOLS / f"{program}.py"), *arguments],
                log=workshop.logs / f"recipe-{bench.recipe.key[:16]}.log",
                cwd=bench.folder,
                what=what,
                code="recipe_failed",
                cure="Correct the recipe in the entry of the model; llama.cpp may not know its architecture.",
                program="tool",
            )
        )
