"""`models`: list, show, fetch and remove registered models, whose files may come from a hub or S3."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from vlmhyperbench.cli import exits
from vlmhyperbench.cli.bringing import (
    BUCKET_SCHEME,
    HUB_SCHEME,
    bring_model,
    fetch_entry,
    reference_of,
    remote_reference,
)
from vlmhyperbench.cli.estimate import estimate
from vlmhyperbench.cli.fetching import open_cache
from vlmhyperbench.cli.groups import TARGET
from vlmhyperbench.cli.model_import import import_
from vlmhyperbench.cli.model_loading import load, unload
from vlmhyperbench.cli.model_status import status
from vlmhyperbench.cli.output import emit, say, table
from vlmhyperbench.cli.output_flags import TEXT, OutputFlags
from vlmhyperbench.cli.registry import open_catalogue
from vlmhyperbench.cli.resolving import stated_estimate
from vlmhyperbench.data.fetched import Fetched
from vlmhyperbench.data.model_cache import ModelCache
from vlmhyperbench.data.registered_gguf import unregistered_files
from vlmhyperbench.data.weights import cached_files
from vlmhyperbench.domain.cached_files import MADE
from vlmhyperbench.domain.recipes import CONVERTER, QUANTIZER, RecipeSpec
from vlmhyperbench.errors import NotFound
from vlmhyperbench.registry.catalogue import Catalogue
from vlmhyperbench.registry.model_files import model_files, recipe_of
from vlmhyperbench.registry.plugins import InstalledPlugins
from vlmhyperbench.registry.references import References
from vlmhyperbench.registry.schemas import ModelEntry

app = App(name="models", help="List, show, import, fetch, remove, estimate, load and unload models.")
app.command(estimate)
app.command(status)
app.command(import_, name="import")
app.command(load)
app.command(unload)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedModel:
    """One row of `models list`."""

    name: str
    backends: tuple[str, ...]
    license: str | None
    source: str
    """`package NAME`, a folder, `hf:ORG/NAME@REVISION`, or `s3://BUCKET/PREFIX@VERSION`."""
    is_fetched: bool
    """Whether its files are on this machine, as far as the entry says which they are."""
    size_bytes: int | None
    is_registered: bool = True
    """Whether it is an entry; else a GGUF file beside those of entries, whose name is its path."""


@app.command(name=("list", "ls"))
def list_(*, output: OutputFlags = TEXT) -> int:
    """List the registered models: where their files come from, under which licence, and whether they are here.

    GGUF files beside those of registered models are listed too, by their paths.

    Args:
        output: How the output is printed.
    """
    catalogue, cache = open_catalogue(), open_cache()
    rows = [_listed(catalogue, cache, name, entry) for name, entry in sorted(catalogue.models.items())]
    rows += map(_beside, unregistered_files(catalogue))
    if output.json:
        emit("models", rows)
        return exits.OK
    table(
        ["model", "backends", "licence", "files", "fetched", "GiB"],
        [
            (row.name, ", ".join(row.backends), row.license, row.source, "yes" if row.is_fetched else "no", _gib(row))
            for row in rows
        ],
        right=["GiB"],
    )
    return exits.OK


@app.command
def show(name: str, /, *, output: OutputFlags = TEXT) -> int:
    """Show a model: what its entry states, and the repository, commit, licence and files with hashes if it is fetched.

    Args:
        name: Registered model, or hf:ORG/NAME[@REVISION] or s3://BUCKET/PREFIX.
        output: How the output is printed.
    """
    entry = open_catalogue().get("models", name) if reference_of(name) is None else None
    is_brought = not isinstance(entry, ModelEntry) or entry.is_brought
    try:
        fetched = _fetched(open_cache(), name) if is_brought else None
    except NotFound:
        if entry is None:
            raise
        fetched = None
    if output.json:
        shown = entry.model_dump(mode="json", exclude_defaults=True) if entry is not None else None
        emit("model", {"entry": shown, "fetched": asdict(fetched) if fetched is not None else None})
        return exits.OK
    if isinstance(entry, ModelEntry):
        _say_entry(entry)
    if fetched is not None:
        _say_fetched(fetched)
    elif is_brought:
        does = "makes" if isinstance(entry, ModelEntry) and entry.recipe is not None else "fetches"
        say(f"not here: `vlmhyperbench models fetch {name}` {does} it")
    return exits.OK


def _say_entry(entry: ModelEntry) -> None:
    facts: dict[str, object] = {
        "model": entry.name,
        "description": entry.description,
        "backends": ", ".join(entry.backends),
        "licence": entry.license or "unknown",
        "parameters": f"{entry.parameter_count:,}" if entry.parameter_count is not None else None,
        "weights": _weights_line(entry),
        "context": f"{entry.context_tokens:,} tokens" if entry.context_tokens is not None else None,
        "images": entry.images,
        "recipe": _recipe_line(entry),
        "prompts": entry.chat_template,
        "verified": ", ".join(f"{run.backend} {run.engine_version} ({run.date})" for run in entry.verified)
        or "nowhere",
        "sources": " ".join(entry.sources),
    }
    for title, fact in facts.items():
        if fact:
            say(f"{title}: {fact}")


def _weights_line(entry: ModelEntry) -> str | None:
    size_bytes = stated_estimate(entry.name)
    return f"about {size_bytes / 2**30:.1f} GiB of memory, by the parameters" if size_bytes is not None else None


def _recipe_line(entry: ModelEntry) -> str | None:
    """Return what the recipe does, and with what."""
    recipe = entry.recipe
    if recipe is None:
        return None
    steps = [f"converted to {recipe.convert} ({', '.join(CONVERTER.requirements)})"] if recipe.convert else []
    steps += [f"quantised to {recipe.quantize} ({', '.join(QUANTIZER.requirements)})"] if recipe.quantize else []
    return f"{recipe.source}, {', '.join(steps)}"


def _say_fetched(fetched: Fetched) -> None:
    if fetched.repo == MADE:
        say(f"made of inputs with the hash {fetched.commit}")
    else:
        say(f"{fetched.repo} at {fetched.commit} ({fetched.revision})")
        say(f"licence: {fetched.license or 'not stated'}")
    at = f"{datetime.fromtimestamp(fetched.fetched_at, UTC):%Y-%m-%d %H:%M} UTC"
    say(f"{'made' if fetched.repo == MADE else 'fetched'}: {at}")
    table(
        ["file", "bytes", "sha256"],
        [(file, fetched.sizes[file], sha256) for file, sha256 in fetched.sha256.items()],
        right=["bytes"],
    )


@app.command
def fetch(
    name: str,
    /,
    *,
    backend: Annotated[str | None, Parameter(group=TARGET)] = None,
    mmproj: Annotated[str | None, Parameter(group=TARGET)] = None,
    output: OutputFlags = TEXT,
) -> int:
    """Fetch a model from a hub or S3 into the cache, verify it and register it, pinned by version and hashes.

    Files that are here and whole are not fetched again; an interrupted fetch continues where it ended.

    Args:
        name: Registered model that is fetched, or hf:ORG/NAME[@REVISION], hf:ORG/NAME/FILE.gguf or s3://BUCKET/PREFIX.
        backend: For hf: and s3: the backend that runs the model.
        mmproj: For a GGUF file: file of the image projector in the same repository or prefix.
        output: How the output is printed.
    """
    entry = open_catalogue().models.get(name)
    if entry is not None and entry.remote is not None and entry.sha256:
        fetch_entry(entry, output)  # it also repairs damaged files
    elif entry is None and reference_of(name) is None:
        open_catalogue().get("models", name)  # raises, with the nearest names
    added = bring_model(name, mmproj=mmproj, backend=backend, output=output)
    data = {"name": added.name if added is not None else name, "file": str(added.file) if added is not None else None}
    if output.json:
        emit("model-fetched", data)
    else:
        say(f"models/{data['name']}" + (f": {data['file']}" if data["file"] else " is fetched"))
    return exits.OK


@app.command
def remove(name: str, /, *, output: OutputFlags = TEXT) -> int:
    """Delete a fetched model's files from the cache. Its registry entry stays, and fetches them again when it is used.

    Args:
        name: Registered model that is fetched, or hf:ORG/NAME[@REVISION] or s3://BUCKET/PREFIX.
        output: How the output is printed.
    """
    cache = open_cache()
    fetched = _fetched(cache, name)
    cache.remove(fetched)
    if output.json:
        emit("model-removed", {"repo": fetched.repo, "commit": fetched.commit, "size_bytes": fetched.size_bytes})
    else:
        what = name if fetched.repo == MADE else f"{fetched.repo} at {fetched.commit[:8]}"
        say(f"Removed {what}, {fetched.size_bytes / 2**30:.2f} GiB.")
    return exits.OK


def _fetched(cache: ModelCache, name: str) -> Fetched:
    reference = reference_of(name)
    if reference is not None and reference.scheme in {HUB_SCHEME, BUCKET_SCHEME}:
        wanted = remote_reference(reference)
        repo, revision = wanted.repo, wanted.revision
    else:
        entry = open_catalogue().get("models", name)
        if not isinstance(entry, ModelEntry) or not entry.is_brought:
            cure = "`vlmhyperbench registry show models NAME` shows the others."
            raise NotFound(f"The files of {name!r} are neither fetched nor made.", cure=cure, code="not_fetched")
        recipe = _recipe(open_catalogue(), entry)
        repo, revision = entry.remote or (MADE, recipe.key if recipe is not None else "")
    fetched = cache.get(repo, revision)
    if fetched is None:
        cure = f"Run `vlmhyperbench models fetch {name}`."
        message = f"{name} is not made." if repo == MADE else f"{repo} at {revision} is not fetched."
        raise NotFound(message, cure=cure, code="not_fetched")
    return fetched


def _listed(catalogue: Catalogue, cache: ModelCache, name: str, entry: ModelEntry) -> ListedModel:
    recipe = _recipe(catalogue, entry)
    files = model_files(catalogue.folder_of("models", name), entry, recipe)
    source = f"package {entry.package}" if entry.package is not None else entry.path or "none"
    is_fetched, size_bytes = True, None
    if entry.recipe is not None:
        source = f"recipe of {entry.recipe.source}"
        made = cache.get(MADE, recipe.key) if recipe is not None and files else None
        is_fetched, size_bytes = made is not None, made.size_bytes if made is not None else None
    if entry.remote is not None:
        source = f"{'hf:' if entry.hub is not None else ''}{entry.remote[0]}@{entry.remote[1]}"
        is_fetched = bool(files) and cache.has(cached_files(files))
        cached = cache.get(*entry.remote) if is_fetched else None
        size_bytes = cached.size_bytes if cached is not None else None
    return ListedModel(
        name=name,
        backends=entry.backends,
        license=entry.license,
        source=source,
        is_fetched=is_fetched,
        size_bytes=size_bytes,
    )


def _beside(path: Path) -> ListedModel:
    return ListedModel(
        name=str(path),
        backends=(),
        license=None,
        source="not registered",
        is_fetched=True,
        size_bytes=path.stat().st_size if path.is_file() else None,
        is_registered=False,
    )


def _recipe(catalogue: Catalogue, entry: ModelEntry) -> RecipeSpec | None:
    """Return the pinned recipe of an entry; None if it has none, or its source cannot be used."""
    return recipe_of(References(catalogue=catalogue, plugins=InstalledPlugins()), entry, ())


def _gib(row: ListedModel) -> str | None:
    return f"{row.size_bytes / 2**30:.2f}" if row.size_bytes is not None else None
