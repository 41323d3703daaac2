"""Answers that break the protocol, or come close: what servers have sent, and what each must become.

The rule is that of `vlmhyperbench_sdk.completions`. Load generator, gateway and import are asked the same table.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

BAD = "bad_answer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What an answer must become: an error by its code, or the text of the choice that was asked for."""

    error: str | None = None
    text: str = ""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Poison:
    """What a server sends, and what it must become."""

    data: bytes
    outcome: Outcome


def _bytes(document: object) -> bytes:
    return document if isinstance(document, bytes) else json.dumps(document).encode()


def _bad(document: object, error: str = BAD) -> Poison:
    return Poison(_bytes(document), Outcome(error=error))


def _good(document: object, text: str = "yes", prompt: int | None = None, completion: int | None = None) -> Poison:
    return Poison(_bytes(document), Outcome(text=text, prompt_tokens=prompt, completion_tokens=completion))


def _choice(
    content: object = "yes", *, index: object = 0, reason: object = "stop", **more: object
) -> dict[str, object]:
    message = {"role": "assistant", "content": content, **more}
    return {"index": index, "message": message, "finish_reason": reason}


def _whole(*choices: object, **more: object) -> dict[str, object]:
    return {"id": "chatcmpl-0123456789", "object": "chat.completion", "choices": list(choices), **more}


def _counted(**usage: object) -> dict[str, object]:
    return _whole(_choice(), usage=usage)


_CALL = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
_YES = json.dumps(_whole(_choice())).encode()

WHOLE: Mapping[str, Poison] = {
    "a good answer": _good(_counted(prompt_tokens=3, completion_tokens=1), "yes", 3, 1),
    "an empty answer that has ended": _good(_whole(_choice("")), ""),
    "no content, and an end": _good(_whole(_choice(None)), ""),
    "an empty answer without an end": _bad(_whole(_choice("", reason=None))),
    "an empty message": _bad(_whole({"index": 0, "message": {}, "finish_reason": "stop"})),
    "nothing": _bad(b""),
    "no JSON": _bad(b"<html>yes</html>"),
    "a list": _bad([_whole(_choice())]),
    "two documents": _bad(_YES + _YES),
    "a byte order mark": _good(b"\xef\xbb\xbf" + _YES),
    "invalid UTF-8 in the text": _good(_YES.replace(b'"yes"', b'"y\xffs"'), "y�s"),
    "half a surrogate pair": _good(_YES.replace(b'"yes"', rb'"y\ud83ds"'), "y�s"),
    "nested a hundred thousand deep": _bad(b'{"choices":' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
    "no choices": _bad({"id": "1"}),
    "choices null": _bad({"choices": None}),
    "choices empty": _bad({"choices": []}),
    "choices an object": _bad({"choices": {"0": _choice()}}),
    "choices a text": _bad({"choices": "yes"}),
    "a choice that is a text": _bad({"choices": ["yes"]}),
    "a choice that is empty": _bad({"choices": [{}]}),
    "message null": _bad(_whole({"index": 0, "message": None, "finish_reason": "stop"})),
    "message a text": _bad(_whole({"index": 0, "message": "yes", "finish_reason": "stop"})),
    "message a list": _bad(_whole({"index": 0, "message": [{"content": "yes"}], "finish_reason": "stop"})),
    "a delta in place of a message": _bad(_whole({"index": 0, "delta": {"content": "yes"}, "finish_reason": "stop"})),
    "content a number": _bad(_whole(_choice(4))),
    "content a truth": _bad(_whole(_choice(True))),
    "content an object": _bad(_whole(_choice({"text": "yes"}))),
    "content a list of texts": _bad(_whole(_choice(["yes"]))),
    "content a list of parts": _bad(_whole(_choice([{"type": "text", "text": "yes"}]))),
    "text a number": _bad(_whole({"index": 0, "text": 4, "finish_reason": "stop"})),
    "a plain completion": _good(_whole({"index": 0, "text": "yes", "finish_reason": "stop"})),
    "a refusal": _good(_whole(_choice(None, refusal="I cannot.")), "I cannot."),
    "a refusal that is no text": _bad(_whole(_choice(None, refusal=True))),
    "tool calls alone": _good(_whole(_choice(None, reason="tool_calls", tool_calls=[_CALL])), ""),
    "tool calls an object": _bad(_whole(_choice(None, tool_calls=_CALL))),
    "tool calls of texts": _bad(_whole(_choice(None, tool_calls=["f()"]))),
    "reasoning a number": _good(_whole(_choice(reasoning_content=7))),
    "finish_reason a number": _good(_whole(_choice(reason=1))),
    "finish_reason a list": _good(_whole(_choice(reason=["stop"]))),
    "broken off": _bad(_whole(_choice("ye", reason="abort"))),
    "broken off by an error": _bad(_whole(_choice("ye", reason="ERROR"))),
    "index left out": _good(_whole({"message": {"content": "yes"}, "finish_reason": "stop"})),
    "index a text": _bad(_whole(_choice(index="0"))),
    "index a truth": _bad(_whole(_choice(index=False))),
    "index a fraction": _bad(_whole(_choice(index=0.0))),
    "another choice alone": _bad(_whole(_choice("no", index=5))),
    "a negative choice alone": _bad(_whole(_choice("no", index=-1))),
    "another choice beside": _good(_whole(_choice("no", index=5), _choice())),
    "a negative choice beside": _good(_whole(_choice("no", index=-1), _choice())),
    "the same choice twice": _bad(_whole(_choice(), _choice("no"))),
    "usage null": _good(_whole(_choice(), usage=None)),
    "usage a list": _good(_whole(_choice(), usage=[3, 1])),
    "usage negative": _good(_counted(prompt_tokens=3, completion_tokens=-1), "yes", 3, None),
    "usage huge": _good(_counted(prompt_tokens=10**12, completion_tokens=1), "yes", None, 1),
    "usage beyond any integer": _good(_counted(prompt_tokens=3, completion_tokens=10**300), "yes", 3, None),
    "usage of texts": _good(_counted(prompt_tokens="3", completion_tokens="1")),
    "usage of fractions": _good(_counted(prompt_tokens=3.0, completion_tokens=1.5)),
    "usage of truths": _good(_counted(prompt_tokens=True, completion_tokens=True)),
    "usage 1e308": _good(_counted(prompt_tokens=3, completion_tokens=1e308), "yes", 3, None),
    "usage NaN": _good(_counted(prompt_tokens=3, completion_tokens=float("nan")), "yes", 3, None),
    "usage infinite": _good(_counted(prompt_tokens=float("inf"), completion_tokens=1), "yes", None, 1),
    "usage 1e999": _good(_YES[:-1] + b',"usage":{"prompt_tokens":3,"completion_tokens":1e999}}', "yes", 3, None),
    "an error beside an answer": _bad(_whole(_choice(), error={"message": "no memory"}), "stream_error"),
    "an error alone": _bad({"error": {"message": "no memory", "code": 500}}, "stream_error"),
    "an error that is a text": _bad({"error": "no memory"}, "stream_error"),
}
"""Name → a whole answer, sent with status 200."""


def _delta(content: object = "yes", *, index: object = 0, reason: object = None, **more: object) -> dict[str, object]:
    return _event({"index": index, "delta": {"content": content, **more}, "finish_reason": reason})


def _event(*choices: object, **more: object) -> dict[str, object]:
    return {"id": "chatcmpl-0123456789", "object": "chat.completion.chunk", "choices": list(choices), **more}


def _end(**more: object) -> dict[str, object]:
    return _event({"index": 0, "delta": {}, "finish_reason": "stop"}, **more)


def _stream(*events: object) -> bytes:
    return b"".join(b"data: " + _bytes(event) + b"\n\n" for event in events)


_DONE = b"[DONE]"
_ROLE = _delta("", role="assistant")


def _streams_with_usage(**usage: object) -> bytes:
    return _stream(_delta(), _end(), _event(usage=usage), _DONE)


STREAMS: Mapping[str, Poison] = {
    "a good stream": _good(_streams_with_usage(prompt_tokens=3, completion_tokens=1), "yes", 3, 1),
    "an empty answer that has ended": _good(_stream(_ROLE, _end(), _DONE), ""),
    "an empty answer without an end": _bad(_stream(_ROLE, _DONE)),
    "[DONE] alone": _bad(_stream(_DONE)),
    "nothing at all": _bad(b"", "incomplete_stream"),
    "a comment alone": _bad(b": ping\n\n", "incomplete_stream"),
    "usage alone": _bad(_stream(_event(usage={"prompt_tokens": 3, "completion_tokens": 1}), _DONE)),
    "an end alone without a delta": _bad(_stream(_event({"index": 0, "finish_reason": "stop"}), _DONE)),
    "deltas null": _bad(_stream(_event({"index": 0, "delta": None, "finish_reason": "stop"}), _DONE)),
    "a delta null at the end": _good(_stream(_delta(), _event({"index": 0, "delta": None, "finish_reason": "stop"}))),
    "no JSON": _bad(_stream(_delta(), b"yes", _DONE)),
    "a list": _bad(_stream(_delta(), [_end()], _DONE)),
    "two documents in an event": _bad(_stream(_bytes(_delta()) + _bytes(_end()), _DONE)),
    "a byte order mark": _good(b"\xef\xbb\xbf" + _stream(_delta(), _end(), _DONE)),
    "invalid UTF-8 in the text": _good(_stream(_bytes(_delta()).replace(b'"yes"', b'"y\xffs"'), _end()), "y�s"),
    "half a surrogate pair": _good(_stream(_bytes(_delta()).replace(b'"yes"', rb'"y\ud83ds"'), _end()), "y�s"),
    "nested a hundred thousand deep": _bad(_stream(b'{"choices":' + b"[" * 100_000, _DONE)),
    "choices null": _good(_stream({"choices": None}, _delta(), _end(), _DONE)),
    "choices an object": _bad(_stream({"choices": {"0": _delta()}}, _end(), _DONE)),
    "choices a text": _bad(_stream(_delta(), {"choices": "yes"}, _DONE)),
    "a choice that is a text": _bad(_stream(_event("yes"), _end(), _DONE)),
    "delta a text": _bad(_stream(_event({"index": 0, "delta": "yes"}), _end(), _DONE)),
    "a message in place of deltas": _bad(_stream(_event({"index": 0, "message": {"content": "yes"}}), _DONE)),
    "content a number": _bad(_stream(_delta(4), _end(), _DONE)),
    "content a truth": _bad(_stream(_delta(), _delta(False), _end(), _DONE)),
    "content an object": _bad(_stream(_delta({"text": "yes"}), _end(), _DONE)),
    "content a list of parts": _bad(_stream(_delta([{"type": "text", "text": "yes"}]), _end(), _DONE)),
    "text a number": _bad(_stream(_event({"index": 0, "text": 4, "finish_reason": "stop"}), _DONE)),
    "a plain completion": _good(_stream(_event({"index": 0, "text": "yes", "finish_reason": "stop"}), _DONE)),
    "a refusal": _good(_stream(_delta(None, refusal="I can"), _delta(None, refusal="not."), _end()), "I cannot."),
    "tool calls alone": _good(_stream(_delta(None, tool_calls=[_CALL]), _end(), _DONE), ""),
    "tool calls of texts": _bad(_stream(_delta(None, tool_calls=["f()"]), _end(), _DONE)),
    "finish_reason a number": _good(_stream(_delta(reason=7), _delta(" yes"), _DONE), "yes yes"),
    "finish_reason empty": _good(_stream(_delta(reason=""), _delta(" yes", reason="stop"), _DONE), "yes yes"),
    "broken off": _bad(_stream(_delta("ye"), _delta("", reason="abort"), _DONE)),
    "broken off by an error": _bad(_stream(_delta("ye"), _delta("", reason="error"), _DONE)),
    "index left out": _good(_stream(_event({"delta": {"content": "yes"}, "finish_reason": "stop"}), _DONE)),
    "index a text": _bad(_stream(_delta(index="0"), _end(), _DONE)),
    "another choice alone": _bad(_stream(_delta("no", index=5), _delta("", index=5, reason="stop"), _DONE)),
    "another choice between": _good(_stream(_delta(), _delta("no", index=5), _delta("!"), _end(), _DONE), "yes!"),
    "a negative choice between": _good(_stream(_delta(), _delta("no", index=-1), _end(), _DONE)),
    "another choice in the same event": _good(
        _stream(_event({"index": 5, "delta": {"content": "no"}}, {"index": 0, "delta": {"content": "yes"}}), _end())
    ),
    "the same choice twice in an event": _bad(
        _stream(_event({"index": 0, "delta": {"content": "a"}}, {"index": 0, "delta": {"content": "b"}}), _end())
    ),
    "text after the finish": _good(_stream(_delta(), _end(), _delta(" no"), _DONE)),
    "text after [DONE]": _good(_stream(_delta(), _end(), _DONE, _delta(" no"))),
    "an error after [DONE]": _good(_stream(_delta(), _end(), _DONE, {"error": {"message": "no"}})),
    "usage after the finish": _good(
        _stream(_delta(), _end(usage={"prompt_tokens": 3, "completion_tokens": 2}), _DONE), "yes", 3, 2
    ),
    "an error in the stream": _bad(_stream(_delta(), {"error": {"message": "no memory"}}, _DONE), "stream_error"),
    "text after an error": _bad(_stream({"error": {"message": "no memory"}}, _delta(), _end()), "stream_error"),
    "cut before the end": _bad(_stream(_delta()), "incomplete_stream"),
    "usage null": _good(_stream(_delta(), _end(usage=None), _DONE)),
    "usage a list": _good(_stream(_delta(), _end(usage=[3, 1]), _DONE)),
    "usage negative": _good(_streams_with_usage(prompt_tokens=3, completion_tokens=-5), "yes", 3, None),
    "usage that turns negative": _good(
        _stream(_delta() | {"usage": {"completion_tokens": 1}}, _end(usage={"completion_tokens": -1}), _DONE)
    ),
    "usage huge": _good(_streams_with_usage(prompt_tokens=10**12, completion_tokens=1), "yes", None, 1),
    "usage of texts": _good(_streams_with_usage(prompt_tokens="3", completion_tokens="1")),
    "usage of fractions": _good(_streams_with_usage(prompt_tokens=3.0, completion_tokens=1.5)),
    "usage NaN": _good(_streams_with_usage(prompt_tokens=3, completion_tokens=float("nan")), "yes", 3, None),
    "usage 1e308": _good(_streams_with_usage(prompt_tokens=1e308, completion_tokens=1), "yes", None, 1),
    "many pieces, then another choice's and those after the end": _good(
        _stream(*[_delta("y")] * 100, *[_delta("n", index=1)] * 3, _delta("y"), _end(), *[_delta("n")] * 100, _DONE),
        "y" * 101,
    ),
}
"""Name → the payload of a stream of server-sent events with status 200."""
