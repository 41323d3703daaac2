"""The DeepSeek-OCR adapter: vLLM's, with the model's own prompts, stop text and rule against repetition."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.gateway import LoadRequest
from vlmhyperbench_sdk.protocols import LOOPBACK, EngineLaunch, RemoteEngine
from vlmhyperbench_sdk.types import JsonObject, JsonValue
from vlmhyperbench_vllm.adapter import Vllm

SHIM = Path(__file__).parent / "shim" / "__main__.py"
PROCESSOR = "deepseek_processor:NoRepeatedNgrams"

OCR_TASK = "ocr_task"
"""Field of a request, or of its `model_params`, that chooses one of `PROMPTS` in place of the request's own text."""

PROMPTS: Mapping[str, str] = {
    "markdown": "<|grounding|>Convert the document to markdown.",
    "layout": "<|grounding|>OCR this image.",
    "text": "Free OCR.",
    "figure": "Parse the figure.",
    "description": "Describe this image in detail.",
}
"""Task → prompt with which the model was trained (README of deepseek-ai/DeepSeek-OCR). The first two answer with boxes:
`<|ref|>text<|/ref|><|det|>[[x1, y1, x2, y2]]<|/det|>`, in thousandths of the page."""

END = "<\uff5cend\u2581of\u2581sentence\uff5c>"
"""The end of an answer, which is text here: special tokens are shown, since boxes are made of them."""

NGRAMS: Mapping[str, JsonValue] = {"ngram_size": 30, "window_size": 90, "whitelist_token_ids": [128821, 128822]}
"""No 30 tokens that began within the last 90 repeat, but for the cells of a table, `<td>` and `</td>`.

Source: vLLM's guide to DeepSeek-OCR. `vllm_xargs` of a request replaces single values; `ngram_size` 0 is no rule.
"""


class DeepSeekOcr(Vllm):
    """DeepSeek-OCR in vLLM; `engine_params` are those of vLLM."""

    def plan_engine(
        self, load: LoadRequest, *, port: int, python: str, host: str = LOOPBACK
    ) -> EngineLaunch | RemoteEngine:
        """Start vLLM's server through the shim, with the rule against repetition.

        Raises:
            InvalidInput: a parameter is unknown or out of range, or the files are not in one folder.
            NotFound: a model file is missing.
        """
        launch = super().plan_engine(load, port=port, python=python, host=host)
        if not isinstance(launch, EngineLaunch):
            return launch
        server = launch.argv.index("-m")
        argv = (*launch.argv[:server], str(SHIM), *launch.argv[server + 2 :], "--logits-processors", PROCESSOR)
        return dataclasses.replace(launch, argv=argv)

    def to_engine(self, request: JsonObject) -> dict[str, JsonValue]:
        """Translate to vLLM's fields, with the prompt of `ocr_task`, the stop text and the rule against repetition.

        Raises:
            InvalidInput: the request is malformed, names an unknown task, or has a field that vLLM does not support.
        """
        fields = dict(request) if isinstance(request, Mapping) else {}
        given = fields.get("model_params")
        params = dict(given) if isinstance(given, Mapping) else {}
        task = fields.pop(OCR_TASK, None) or params.pop(OCR_TASK, None)
        if isinstance(given, Mapping):
            fields["model_params"] = params
        body = super().to_engine(fields)
        if task is not None:
            body["messages"] = _with_prompt(body["messages"], task)
        body["stop"] = _with_end(body.get("stop"))
        body.setdefault("skip_special_tokens", False)
        own = body.get("vllm_xargs")
        body["vllm_xargs"] = {**NGRAMS, **(own if isinstance(own, Mapping) else {})}
        return body


def _with_end(stop: JsonValue) -> list[JsonValue]:
    stops = [stop] if isinstance(stop, str) else stop if isinstance(stop, list) else []
    return [*stops, *(() if END in stops else (END,))]


def _with_prompt(messages: JsonValue, task: JsonValue) -> JsonValue:
    """Return the messages with the prompt of a task in place of the text of the last one; its images stay."""
    prompt = PROMPTS.get(task) if isinstance(task, str) else None
    if prompt is None:
        raise InvalidInput(f"DeepSeek-OCR has no task {task!r}.", cure=f"Choose one of {', '.join(PROMPTS)}.")
    if not isinstance(messages, (list, tuple)) or not isinstance(messages[-1], Mapping):
        raise InvalidInput("messages must be a list of messages.")
    last = messages[-1]
    content = last.get("content")
    parts = content if isinstance(content, (list, tuple)) else ()
    images = [part for part in parts if isinstance(part, Mapping) and part.get("type") == "image_url"]
    return [*messages[:-1], {**last, "content": [*images, {"type": "text", "text": prompt}]}]
