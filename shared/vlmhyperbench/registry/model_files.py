"""Pin the files of a model: those of a folder, a package, a repository or S3, and those that a recipe makes."""

from __future__ import annotations

from pathlib import Path as FilePath

from vlmhyperbench.domain.cached_files import CachedFile
from vlmhyperbench.domain.recipes import CONVERTER, MMPROJ, QUANTIZER, WEIGHTS, ModelFile, RecipeSpec
from vlmhyperbench.registry.errors import Path
from vlmhyperbench.registry.references import References
from vlmhyperbench.registry.schemas import ModelEntry


def model_files(root: FilePath, model: ModelEntry, recipe: RecipeSpec | None = None) -> tuple[ModelFile, ...]:
    """Pin a model's files by location and hash; what is fetched or made, only once it has been.

    Args:
        root: Folder to which a relative `path` of the entry refers.
        model: The entry.
        recipe: The pinned recipe of an entry that has one; its source's projector stays as it is unless it is made.
    """
    if model.recipe is not None:
        if recipe is None or not model.sha256:
            return ()
        made = tuple(
            ModelFile(role=role, location=recipe.made(role).location, sha256=sha256)
            for role, sha256 in sorted(model.sha256.items())
        )
        return (*made, *(file for file in recipe.sources if file.role == MMPROJ and MMPROJ not in model.sha256))
    if model.remote is not None:
        repo, version = model.remote
        folder = CachedFile(repo, version, "").location.rstrip("/")
    else:
        folder = f"package:{model.package}" if model.package is not None else str(root / (model.path or ""))
    return tuple(
        ModelFile(role=role, location=f"{folder}/{file}", sha256=model.sha256[role])
        for role, file in sorted(model.files.items())
        if role in model.sha256
    )


def missing_files(root: FilePath, model: ModelEntry) -> list[str]:
    """Return the files of a model in a folder of this machine that are gone; none where the folder is elsewhere."""
    folder = root / (model.path or "")
    return [str(folder / file) for file in model.files.values() if folder.is_dir() and not (folder / file).is_file()]


def recipe_of(references: References, model: ModelEntry, path: Path) -> RecipeSpec | None:
    """Pin the recipe of a model with the files that it uses and its tools; None if it has none, or after a problem."""
    choice = model.recipe
    if choice is None:
        return None
    catalogue = references.catalogue
    source = references.find(catalogue.models, "models", choice.source, path)
    if source is None:
        return None
    if source.recipe is not None:
        cure = "Name a model whose files exist; one recipe may convert and quantise."
        references.say(path, f"the source {choice.source!r} of the recipe is made by a recipe itself.", cure)
        return None
    files = model_files(catalogue.folder_of("models", choice.source), source)
    if not files:
        cure = f"Run `vlmhyperbench models fetch {choice.source}` on the stack's machine, which records their hashes."
        references.say(path, f"the files of {choice.source!r} are not fetched yet.", cure)
        return None
    if (choice.convert is None) != (WEIGHTS in {file.role for file in files}):
        cure = "Leave convert out." if choice.convert is not None else "Add convert, such as F16."
        form = "is in GGUF already" if choice.convert is not None else "is not in GGUF, and is not converted"
        references.say(path, f"the source {choice.source!r} of the recipe {form}.", cure)
        return None
    return RecipeSpec(
        **choice.model_dump(),
        sources=files,
        converter=CONVERTER if choice.convert is not None else None,
        quantizer=QUANTIZER if choice.quantize is not None else None,
    )
