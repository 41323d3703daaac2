"""Validation of prompts and reports that plugins return, for the platform and the conformance suites."""

from __future__ import annotations

import re
from typing import Final

from vlmhyperbench_sdk.protocols import WrittenReport
from vlmhyperbench_sdk.types import Prompt

MAX_PROMPT_CHARS: Final = 1_000_000
MAX_REPORT_BYTES: Final = 64 * 1024 * 1024
_SUFFIX: Final = re.compile(r"(\.[a-z0-9]{1,16}){1,2}")
_MEDIA_TYPE: Final = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,63}/[a-z0-9][a-z0-9!#$&^_.+-]{0,63}")


def problem_with_prompt(prompt: object) -> str | None:
    """Return why a prompt cannot be sent, or None if it can."""
    if not isinstance(prompt, Prompt):
        return f"render returns {type(prompt).__name__} and not a Prompt"
    for name, text in (("user", prompt.user), ("system", prompt.system)):
        if text is None and name == "system":
            continue
        if not isinstance(text, str):
            return f"the {name} prompt is {type(text).__name__} and not a text"
        if len(text) > MAX_PROMPT_CHARS:
            return f"the {name} prompt is longer than {MAX_PROMPT_CHARS} characters"
        if any("\ud800" <= character <= "\udfff" for character in text):
            return f"the {name} prompt holds an unpaired surrogate, which no request can carry"
    return None


def problem_with_report(written: object) -> str | None:
    """Return why a written report cannot be stored, or None if it can."""
    if not isinstance(written, WrittenReport):
        return f"write returns {type(written).__name__} and not a WrittenReport"
    if not isinstance(written.content, bytes):
        return f"its content is {type(written.content).__name__} and not bytes"
    if len(written.content) > MAX_REPORT_BYTES:
        return f"its content is longer than {MAX_REPORT_BYTES} bytes"
    if not isinstance(written.suffix, str) or _SUFFIX.fullmatch(written.suffix) is None:
        return f"its suffix {str(written.suffix)[:40]!r} is not of the form .txt"
    if not isinstance(written.media_type, str) or _MEDIA_TYPE.fullmatch(written.media_type) is None:
        return f"its media type {str(written.media_type)[:80]!r} is not of the form text/plain"
    return None
