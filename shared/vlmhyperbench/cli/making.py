"""Make a registered model by its recipe for commands, and pin the result in the user's own entry."""

from __future__ import annotations

import asyncio

from vlmhyperbench.cli.adding import open_shelf
from vlmhyperbench.cli.fetching import showing_bytes
from vlmhyperbench.cli.output import teller
from vlmhyperbench.cli.output_flags import OutputFlags
from vlmhyperbench.data.making import make
from vlmhyperbench.domain.recipes import RecipeSpec
from vlmhyperbench.errors import Conflict
from vlmhyperbench.registry.adding_models import pin_made
from vlmhyperbench.registry.errors import RegistryErrors
from vlmhyperbench.registry.model_files import recipe_of
from vlmhyperbench.registry.plugins import InstalledPlugins
from vlmhyperbench.registry.references import References
from vlmhyperbench.registry.schemas import ModelEntry
from vlmhyperbench.registry.shelf import Added, Shelf
from vlmhyperbench.settings import Settings


def make_entry(name: str, entry: ModelEntry, output: OutputFlags) -> Added | None:
    """Make the files of a model whose source is pinned, unless they are here, and pin them if they are not.

    Raises:
        RegistryErrors: the source cannot be used.
        VlmHyperBenchError: see `data.making.make`.
        Conflict: the result is not the pinned one.
    """
    shelf = open_shelf()  # anew: the source may just have been pinned
    recipe = pinned_recipe(shelf, entry)
    with showing_bytes(name, output) as arrival:
        made = asyncio.run(make(recipe, Settings.load(), arrival, tell=teller(output, name)))
    sha256 = {file.removesuffix(".gguf"): digest for file, digest in made.sha256.items()}
    if not entry.sha256:
        return pin_made(shelf, name, sha256)
    if entry.sha256 != sha256:
        cure = "Remove files and sha256 from the model's entry to pin the new result, or restore recipe and source."
        raise Conflict(f"The recipe of {name!r} does not make the pinned files any more.", cure=cure, code="wrong_hash")
    return None


def pinned_recipe(shelf: Shelf, entry: ModelEntry) -> RecipeSpec:
    """Return the recipe of an entry with its source's files.

    Raises:
        RegistryErrors: the source does not exist, is not fetched, or cannot be used so.
    """
    references = References(catalogue=shelf.catalogue, plugins=InstalledPlugins())
    recipe = recipe_of(references, entry, ("models", entry.name, "recipe"))
    if recipe is None:
        raise RegistryErrors.of(references.problems)
    return recipe
