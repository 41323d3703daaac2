"""`models`: list, show, fetch and remove registered models, whose files may come from a hub."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Annotated

from cyclopts import App, Parameter

from vlmhyperbench.cli import exits
from vlmhyperbench.cli.bringing import bring_model, fetch_entry, hub_reference, reference_of
from vlmhyperbench.cli.estimate import estimate
from vlmhyperbench.cli.fetching import open_cache
from vlmhyperbench.cli.groups import TARGET
from vlmhyperbench.cli.output import emit, say, table
from vlmhyperbench.cli.output_flags import TEXT, OutputFlags
from vlmhyperbench.cli.registry import open_catalogue
from vlmhyperbench.data.model_cache import Fetched, ModelCache
from vlmhyperbench.data.weights import hub_files
from vlmhyperbench.errors import NotFound
from vlmhyperbench.registry.catalogue import Catalogue
from vlmhyperbench.registry.schemas import ModelEntry
from vlmhyperbench.registry.targets import model_files

app = App(name="models", help="List, show, fetch, remove and estimate models.")
app.command(estimate)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedModel:
    """One row of `models list`."""

    name: str
    backends: tuple[str, ...]
    license: str | None
    source: str
    """`package NAME`, a folder, or `hf:ORG/NAME@REVISION`."""
    is_fetched: bool
    """Whether its files are on this machine, as far as the entry says which they are."""
    size_bytes: int | None


@app.command(name="list")
def list_(*, output: OutputFlags = TEXT) -> int:
    """List the registered models: where their files come from, under which licence, and whether they are here.

    Args:
        output: How the output is printed.
    """
    catalogue, cache = open_catalogue(), open_cache()
    rows = [_listed(catalogue, cache, name, entry) for name, entry in sorted(catalogue.models.items())]
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
        name: Registered model, or hf:ORG/NAME[@REVISION].
        output: How the output is printed.
    """
    entry = open_catalogue().get("models", name) if reference_of(name) is None else None
    has_hub = entry is None or (isinstance(entry, ModelEntry) and entry.hub is not None)
    try:
        fetched = _fetched(open_cache(), name) if has_hub else None
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
    elif has_hub:
        say(f"not fetched: `vlmhyperbench models fetch {name}` fetches it")
    return exits.OK


def _say_entry(entry: ModelEntry) -> None:
    facts: dict[str, object] = {
        "model": entry.name,
        "description": entry.description,
        "backends": ", ".join(entry.backends),
        "licence": entry.license,
        "parameters": f"{entry.parameter_count:,}" if entry.parameter_count is not None else None,
        "context": f"{entry.context_tokens:,} tokens" if entry.context_tokens is not None else None,
        "images": entry.images,
        "prompts": entry.chat_template,
        "verified": ", ".join(f"{run.backend} {run.engine_version} ({run.date})" for run in entry.verified)
        or "nowhere",
        "sources": " ".join(entry.sources),
    }
    for title, fact in facts.items():
        if fact:
            say(f"{title}: {fact}")


def _say_fetched(fetched: Fetched) -> None:
    say(f"{fetched.repo} at {fetched.commit} ({fetched.revision})")
    say(f"licence: {fetched.license or 'not stated'}")
    say(f"fetched: {datetime.fromtimestamp(fetched.fetched_at, UTC):%Y-%m-%d %H:%M} UTC")
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
    """Fetch a model from the hub into the cache, verify it and register it, pinned by commit and hashes.

    Files that are here and whole are not fetched again; an interrupted fetch continues where it ended.

    Args:
        name: Registered model that names a repository, or hf:ORG/NAME[@REVISION] or hf:ORG/NAME/FILE.gguf.
        backend: For hf: the backend that runs the model.
        mmproj: For a GGUF file: file of the image projector in the same repository.
        output: How the output is printed.
    """
    entry = open_catalogue().models.get(name)
    if entry is not None and entry.hub is not None and entry.sha256:
        fetch_entry(entry, entry.hub.revision, output)  # it also repairs damaged files
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
        name: Registered model that names a repository, or hf:ORG/NAME[@REVISION].
        output: How the output is printed.
    """
    cache = open_cache()
    fetched = _fetched(cache, name)
    cache.remove(fetched)
    if output.json:
        emit("model-removed", {"repo": fetched.repo, "commit": fetched.commit, "size_bytes": fetched.size_bytes})
    else:
        say(f"Removed {fetched.repo} at {fetched.commit[:8]}, {fetched.size_bytes / 2**30:.2f} GiB.")
    return exits.OK


def _fetched(cache: ModelCache, name: str) -> Fetched:
    reference = reference_of(name)
    if reference is not None and reference.scheme == "hf":
        wanted = hub_reference(reference.path)
        repo, revision = wanted.repo, wanted.revision
    else:
        entry = open_catalogue().get("models", name)
        if not isinstance(entry, ModelEntry) or entry.hub is None:
            cure = "`vlmhyperbench registry show models NAME` shows the others."
            raise NotFound(f"The files of {name!r} do not come from a hub.", cure=cure, code="not_fetched")
        repo, revision = entry.hub.repo, entry.hub.revision
    fetched = cache.get(repo, revision)
    if fetched is None:
        cure = f"Run `vlmhyperbench models fetch {name}`."
        raise NotFound(f"{repo} at {revision} is not fetched.", cure=cure, code="not_fetched")
    return fetched


def _listed(catalogue: Catalogue, cache: ModelCache, name: str, entry: ModelEntry) -> ListedModel:
    files = model_files(catalogue.folder_of("models", name), entry)
    source = f"package {entry.package}" if entry.package is not None else entry.path or "none"
    is_fetched, size_bytes = True, None
    if entry.hub is not None:
        source = f"hf:{entry.hub.repo}@{entry.hub.revision}"
        is_fetched = bool(files) and cache.has(hub_files(files))
        cached = cache.get(entry.hub.repo, entry.hub.revision) if is_fetched else None
        size_bytes = cached.size_bytes if cached is not None else None
    return ListedModel(
        name=name,
        backends=entry.backends,
        license=entry.license,
        source=source,
        is_fetched=is_fetched,
        size_bytes=size_bytes,
    )


def _gib(row: ListedModel) -> str | None:
    return f"{row.size_bytes / 2**30:.2f}" if row.size_bytes is not None else None
