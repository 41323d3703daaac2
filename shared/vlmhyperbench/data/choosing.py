"""Choose the files of a repository or folder that a backend needs: one format of the weights, not all formats."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Final

from vlmhyperbench.errors import InvalidInput, NotFound

CONFIG: Final = "config.json"
GGUF: Final = ".gguf"
_ROLE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_BESIDE_WEIGHTS: Final = (
    *(".json", ".jsonl", ".jinja", ".txt", ".model", ".tiktoken", ".bpe", ".vocab", ".merges", ".py", ".yaml", ".yml"),
)
"""Endings of configuration, tokenizer, processor, template and code."""
_LICENCES: Final = ("LICENSE", "LICENCE", "NOTICE")


def folder_files(names: Collection[str], where: str) -> list[str]:
    """Return the files of a model in the format of transformers; files in subfolders are other formats or examples.

    Raises:
        NotFound: there is no config.json, or there are no weights.
    """
    top = [name for name in names if _ROLE.fullmatch(name)]
    tensors = [name for name in top if name.endswith(".safetensors")]
    # `consolidated` is the same weights in the format of Mistral.
    weights = [name for name in tensors if not name.startswith("consolidated")] or [
        name for name in top if name.startswith("pytorch_model") and name.endswith(".bin")
    ]
    if CONFIG not in top or not weights:
        formats = sorted({name.rpartition(".")[2] for name in names if "." in name})
        lack = f"no {CONFIG}" if CONFIG not in top else "no weights (*.safetensors)"
        raise NotFound(
            f"{where} has {lack}; it has files of the formats {', '.join(formats) or 'none'}.",
            cure="Name a model in the format of transformers; for GGUF name the file: hf:ORG/NAME/FILE.gguf or "
            "gguf:PATH.",
            code="weights_missing",
        )
    beside = [name for name in top if name.endswith(_BESIDE_WEIGHTS) or name.startswith(_LICENCES)]
    skipped = "model.safetensors.index.json" if weights[0].endswith(".bin") else "pytorch_model.bin.index.json"
    return sorted({*weights, *beside} - {skipped})


def gguf_files(names: Collection[str], weights: str | None, mmproj: str | None, where: str) -> Mapping[str, str]:
    """Return role → file of a repository with GGUF files; only what leaves no choice is chosen.

    Raises:
        NotFound: there is no GGUF file, or not the named one.
        InvalidInput: there are several and none is named.
    """
    every = sorted(name for name in names if name.lower().endswith(GGUF) and "/" not in name)
    projectors = [name for name in every if "mmproj" in name.lower()]
    texts = [name for name in every if name not in projectors]
    chosen = {"weights": _one(texts, weights, where, "files of weights", "hf:ORG/NAME/FILE.gguf")}
    if projectors or mmproj is not None:
        chosen["mmproj"] = _one(projectors, mmproj, where, "projectors", "--mmproj FILE")
    return chosen


def _one(names: Collection[str], wanted: str | None, where: str, what: str, how: str) -> str:
    if wanted is not None and wanted in names:
        return wanted
    if wanted is None and len(names) == 1:
        return next(iter(names))
    listed = ", ".join(names) or "none"
    if wanted is not None:
        message = f"{where} has no file {wanted!r}; its GGUF {what} are {listed}."
        raise NotFound(message, cure=f"Name one of them: {how}.", code="hub_no_file")
    if not names:
        raise NotFound(f"{where} has no GGUF {what}.", cure="Choose another backend.", code="weights_missing")
    raise InvalidInput(f"{where} has several GGUF {what}: {listed}.", cure=f"Name one: {how}.", code="usage")
