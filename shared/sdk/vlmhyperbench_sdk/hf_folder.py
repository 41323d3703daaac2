"""Read what an adapter must know of a Hugging Face model's folder: its place, its configuration, its tensors.

Such a model has one role for each file, which is the file's name; all files lie in one folder. Nothing of the model is
executed or loaded.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import cast

from vlmhyperbench_sdk.errors import InvalidInput, NotFound
from vlmhyperbench_sdk.gateway import LoadRequest
from vlmhyperbench_sdk.types import JsonObject

CONFIG = "config.json"
"""Role, and name, of the file whose folder holds the model."""

WEIGHTS = frozenset({".safetensors", ".bin", ".pt", ".pth"})
"""Suffixes of files with weights."""

_MAX_CONFIG_BYTES = 16 * 1024 * 1024
_MAX_HEADER_BYTES = 100_000_000


def model_folder(load: LoadRequest) -> Path:
    """Return the folder of a model.

    Raises:
        InvalidInput: a file lies elsewhere or has another name than its role.
        NotFound: the model has no `config.json`, no weights, or a file that does not exist.
    """
    if CONFIG not in load.files:
        raise NotFound(
            f"The model {load.model} has no file in the role {CONFIG}.",
            cure="Name each file of its folder under files in the entry of the model, with its name as the role.",
        )
    folder = Path(load.files[CONFIG]).parent
    for role, name in load.files.items():
        if not Path(name).is_file():
            raise NotFound(
                f"There is no file {name}.", cure="Put it there, or correct the path in the entry of the model."
            )
        if Path(name) != folder / role:
            raise InvalidInput(
                f"The file {name} of the model {load.model} is not {folder / role}.",
                cure="Put all files of the model into one folder, and give each its name as its role.",
            )
    if not any(Path(name).suffix in WEIGHTS for name in load.files.values()):
        raise NotFound(
            f"The model {load.model} has no file with weights.", cure="Name its *.safetensors files under files."
        )
    return folder


def read_config(load: LoadRequest) -> JsonObject:
    """Return the content of `config.json`.

    Raises:
        InvalidInput: it is not a JSON object.
        NotFound: there is none.
    """
    path = Path(load.files.get(CONFIG, CONFIG))
    try:
        with path.open("rb") as file:
            config = json.loads(file.read(_MAX_CONFIG_BYTES))
    except OSError as error:
        raise NotFound(f"There is no file {path}.", cure="Name the model's config.json under files.") from error
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"The file {path} is not JSON: {error}.", cure="Fetch the model again.") from error
    if not isinstance(config, dict):
        raise InvalidInput(f"The file {path} is not a JSON object.", cure="Fetch the model again.")
    return cast("JsonObject", config)


def count_elements(files: Mapping[str, str]) -> dict[str, int]:
    """Return the elements of all weights by the type of their tensors, as safetensors names it (`F32`, `BF16` …).

    A file whose header cannot be read counts its bytes as elements of `U8`. Source of the layout: the specification of
    safetensors, "Format": a length in 8 bytes, then a JSON object.
    """
    elements: dict[str, int] = {}
    for path in map(Path, files.values()):
        if path.suffix in WEIGHTS and path.is_file():
            for kind, count in _tensors(path):
                elements[kind] = elements.get(kind, 0) + count
    return elements


def _tensors(path: Path) -> Iterator[tuple[str, int]]:
    try:
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            if length > _MAX_HEADER_BYTES:
                raise ValueError(length)
            header = json.loads(file.read(length))
        tensors = [
            (str(tensor["dtype"]), math.prod(tensor["shape"])) for name, tensor in header.items() if name[:1] != "_"
        ]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, struct.error):
        tensors = [("U8", path.stat().st_size)]
    yield from tensors
