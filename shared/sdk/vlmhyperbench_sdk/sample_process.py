"""Answer requests for the samples of a dataset and the prompts of a strategy; `metric_process` is the program.

A request names a plugin (`dataset` or `prompt`, with `class_path`, `params` and `called`) and asks one thing of it:

- `samples`: the next ones, from the `first` on, which begins a new reading where it is 0; the reply `is_end` after the
  last one
- `render`: the prompts of samples, each given as `[key, question, metadata]`
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from vlmhyperbench_sdk import discovery
from vlmhyperbench_sdk.errors import PluginFailure
from vlmhyperbench_sdk.protocols import Dataset, DatasetSource, PromptStrategy
from vlmhyperbench_sdk.types import Image, Sample

MAX_SAMPLES = 500
"""Samples in one reply."""
MAX_REPLY_BYTES = 16 * 1024**2
"""Bytes after which a reply ends; the last image may exceed it."""


class Samples:
    """The datasets and prompts that were opened, by the JSON that names them."""

    def __init__(self) -> None:
        self._reading: dict[str, Iterator[Sample]] = {}
        self._prompts: dict[str, PromptStrategy] = {}

    def ask(self, request: Mapping[str, Any]) -> dict[str, object]:
        """Answer a request.

        Raises:
            VlmHyperBenchError: the plugin cannot be imported or constructed, or refuses its params.
            PluginFailure: what it yields is no sample, or no prompt.
        """
        return self._ASKED[request["ask"]](self, request)

    def _samples(self, request: Mapping[str, Any]) -> dict[str, object]:
        wanted, first = request["dataset"], request["of"]["first"]
        key = json.dumps(wanted, sort_keys=True)
        if first == 0:
            dataset = cast("type[Dataset]", discovery.load("datasets", wanted["class_path"]))
            self._reading[key] = iter(dataset(_source(wanted)))
        rows: list[dict[str, object]] = []
        size = 0
        for sample in self._reading[key]:
            if not isinstance(sample, Sample):
                raise PluginFailure(f"The dataset {wanted['called']!r} yields a {type(sample).__name__}, not a Sample.")
            rows.append(_row(sample))
            size += sum(len(image.data or b"") for image in sample.images)
            if len(rows) == MAX_SAMPLES or size > MAX_REPLY_BYTES:
                return {"samples": rows, "is_end": False}
        return {"samples": rows, "is_end": True}

    def _render(self, request: Mapping[str, Any]) -> dict[str, object]:
        wanted = request["prompt"]
        key = json.dumps(wanted, sort_keys=True)
        if key not in self._prompts:
            opened = discovery.construct("prompts", wanted["class_path"], wanted["params"], called=wanted["called"])
            self._prompts[key] = cast("PromptStrategy", opened)
        samples = [Sample(key=key, question=text, metadata=metadata) for key, text, metadata in request["of"]]
        rendered = [self._prompts[key].render(sample) for sample in samples]
        return {"prompts": [[prompt.user, prompt.system] for prompt in rendered]}

    _ASKED: Mapping[str, Callable[[Samples, Mapping[str, Any]], dict[str, object]]] = {
        "samples": _samples,
        "render": _render,
    }


def _source(wanted: Mapping[str, Any]) -> DatasetSource:
    path = wanted["path"]
    return DatasetSource(
        path=Path(path) if path is not None else None,
        split=wanted["split"],
        revision=wanted["revision"],
        seed=wanted["seed"],
        params=wanted["params"],
    )


def _row(sample: Sample) -> dict[str, object]:
    return {
        "key": sample.key,
        "question": sample.question,
        "references": list(sample.references),
        "images": [_image(image) for image in sample.images],
        "metadata": dict(sample.metadata),
        "location": sample.location,
    }


def _image(image: Image) -> dict[str, str]:
    if image.path is not None:
        return {"path": str(image.path)}
    if image.url is not None:
        return {"url": image.url}
    return {"data": base64.b64encode(image.data or b"").decode()}
