"""Write docs/catalogue.md, the models of a hub that are registered: `python -m tests.architecture.model_pages`.

`make docs` calls it; a test notices an entry that has changed since.
"""

from __future__ import annotations

from pathlib import Path

from vlmhyperbench.cli.resolving import weights_bytes
from vlmhyperbench.registry.loading import load_catalogue
from vlmhyperbench.registry.schemas import ModelEntry

ROOT = Path(__file__).parents[2]
PAGE = "docs/catalogue.md"
HEAD = """\
# The registered models of the hub

This page is written by `make docs` from the entries in `registries/models`; `vlmhyperbench models show NAME` shows \
one with its sources. An entry states what the pages of the model state. "Weights" is the memory of the weights alone, \
by the number of parameters; `vlmhyperbench models estimate NAME` adds KV cache and vision tower once the model is \
fetched. What is empty is not stated there, or nobody here has confirmed it.

"""
COLUMNS = ("name", "repository", "licence", "parameters", "weights", "context", "backends", "run here on")


def page() -> str:
    """Return the page: a table, then what is peculiar of images and prompts."""
    models = load_catalogue(ROOT / "registries").models
    entries = {name: entry for name, entry in sorted(models.items()) if entry.hub is not None}
    rows = [f"| {' | '.join(COLUMNS)} |", f"|{'---|' * len(COLUMNS)}"]
    rows += [f"| {' | '.join(_row(name, entry))} |" for name, entry in entries.items()]
    notes = [_notes(name, entry) for name, entry in entries.items()]
    return HEAD + "\n".join(rows) + "\n\n## Images and prompts\n\n" + "\n".join(notes) + "\n"


def _row(name: str, entry: ModelEntry) -> tuple[str, ...]:
    repo = entry.hub.repo if entry.hub is not None else ""
    size_bytes = weights_bytes(entry)
    return (
        f"`{name}`",
        f"[{repo}](https://huggingface.co/{repo})",
        entry.license or "",
        f"{(entry.parameter_count or 0) / 1e9:.2g} B",
        f"{size_bytes / 2**30:.1f} GiB" if size_bytes is not None else "",
        f"{entry.context_tokens:,}" if entry.context_tokens is not None else "",
        ", ".join(entry.backends),
        ", ".join(f"{run.backend} {run.engine_version}" for run in entry.verified) or "nowhere",
    )


def _notes(name: str, entry: ModelEntry) -> str:
    return f"- `{name}`: {' '.join(text for text in (entry.images, entry.chat_template) if text)}"


if __name__ == "__main__":
    (ROOT / PAGE).write_text(page(), encoding="utf-8")
