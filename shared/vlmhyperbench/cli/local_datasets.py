"""A registered dataset as this machine reads it: pinned, fetched if it is elsewhere, and unpacked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from vlmhyperbench.cli.fetching import showing_bytes
from vlmhyperbench.cli.output_flags import OutputFlags
from vlmhyperbench.data.datasets import on_this_machine
from vlmhyperbench.domain.specs import DatasetSpec
from vlmhyperbench.registry.catalogue import Catalogue
from vlmhyperbench.registry.choices import DatasetChoice
from vlmhyperbench.registry.errors import RegistryErrors
from vlmhyperbench.registry.pins import pin_dataset
from vlmhyperbench.registry.plugins import InstalledPlugins
from vlmhyperbench.registry.references import References
from vlmhyperbench.settings import Settings


@contextmanager
def local_dataset(
    catalogue: Catalogue, name: str, split: str | None = None, *, output: OutputFlags
) -> Iterator[DatasetSpec]:
    """Yield a pinned dataset with its files on this machine until the block ends; what is fetched is said before.

    Raises:
        RegistryErrors: there is no such entry, or it is invalid.
        VlmHyperBenchError: see `on_this_machine`.
    """
    references = References(catalogue=catalogue, plugins=InstalledPlugins())
    spec = pin_dataset(references, DatasetChoice(name=name, split=split), ())
    if spec is None or references.problems:
        raise RegistryErrors.of(references.problems)
    with ExitStack() as files:
        with showing_bytes(name, output) as arrival:
            local = files.enter_context(on_this_machine(spec, Settings.load(), arrival))
        yield local
