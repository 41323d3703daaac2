"""Mask secrets in text that leaves the process: raw, URL-encoded, JSON-escaped, as words, or in base64."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from urllib.parse import quote, quote_plus

from vlmhyperbench_sdk.gateway import SECRET_MASK

SHORTEST_SECRET = 4
"""Minimum length in characters: masking shorter values would hide large parts of every text."""

CUT = "…"
"""Marks where text of a server was truncated."""

_SHORTEST_BASE64 = 6
_NO_WORD = re.compile(r"[^\w.-]", re.ASCII)


class SecretMasker:
    """Masks the secrets of this process; `forget` removes those of an unloaded model."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._counts: dict[str, int] = {}
        self._pattern: re.Pattern[str] | None = None
        self._forms: tuple[str, ...] = ()
        self.add(secrets)

    def add(self, secrets: Iterable[str]) -> None:
        """Mask these values from now on."""
        for secret in secrets:
            if len(secret) >= SHORTEST_SECRET:
                self._counts[secret] = self._counts.get(secret, 0) + 1
        self._compile()

    def forget(self, secrets: Iterable[str]) -> None:
        """Undo one `add` of these values."""
        for secret in secrets:
            if self._counts.get(secret, 0) > 1:
                self._counts[secret] -= 1
            else:
                self._counts.pop(secret, None)
        self._compile()

    def mask(self, text: str) -> str:
        """Return the text with every form of every secret replaced by `********`."""
        return self._pattern.sub(SECRET_MASK, text) if self._pattern is not None else text

    def mask_cut(self, text: str) -> str:
        """Mask a text truncated at `…`: text before a `…` that may be the beginning of a secret is removed as well."""
        *cut, rest = self.mask(text).split(CUT)
        return CUT.join([*(part[: self.held_from(part)] for part in cut), rest])

    def mask_value(self, value: object) -> object:
        """Mask every text inside a nested value of lists and mappings, keys included."""
        match value:
            case str():
                return self.mask(value)
            case bytes():
                return self.mask(value.decode("utf-8", "replace"))
            case Mapping():
                return {self.mask(str(key)): self.mask_value(item) for key, item in value.items()}
            case Sequence() | set() | frozenset():
                return [self.mask_value(item) for item in value]
            case int() | float() | None:
                return value
        return self.mask(str(value)) if self._pattern is not None else value

    def matches(self, text: str) -> Iterable[re.Match[str]]:
        """Yield every match that would be masked, in order."""
        return self._pattern.finditer(text) if self._pattern is not None else ()

    def held_from(self, text: str) -> int:
        """Return the index of the longest suffix that may begin a secret; the text's length if there is none."""
        longest = max((len(form) for form in self._forms), default=1) - 1
        for start in range(max(0, len(text) - longest), len(text)):
            if any(form.startswith(text[start:]) for form in self._forms):
                return start
        return len(text)

    def _compile(self) -> None:
        forms = {form for secret in self._counts for form in _forms_of(secret)}
        self._forms = tuple(sorted(forms, key=lambda form: (-len(form), form)))
        self._pattern = re.compile("|".join(re.escape(form) for form in self._forms)) if self._forms else None


class StreamMasker:
    """Masks a text that arrives in pieces, including secrets that span two pieces."""

    def __init__(self, masker: SecretMasker) -> None:
        self._masker = masker
        self._pending = ""

    def feed(self, text: str) -> str:
        """Add a piece and return the masked text that is safe to show."""
        text = self._pending + text
        hold = self._masker.held_from(text)
        for match in self._masker.matches(text):
            if match.start() < hold < match.end():
                hold = match.end()
        self._pending = text[hold:]
        return self._masker.mask(text[:hold])

    def end(self) -> str:
        """Return the rest of the text, masked."""
        rest, self._pending = self._masker.mask(self._pending), ""
        return rest


def _forms_of(secret: str) -> set[str]:
    raw = secret.encode("utf-8", "surrogatepass")
    forms = {secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1], repr(secret)[1:-1]}
    if not any(0xD800 <= ord(character) <= 0xDFFF for character in secret):
        forms |= {quote(secret, safe=""), quote(secret), quote_plus(secret)}
    # The form in which words of an error body (`code`, `type` and `param`) are recorded.
    word = _NO_WORD.sub("_", secret)
    if sum(character.isalnum() for character in word) >= SHORTEST_SECRET:
        forms.add(word)
    for shift, skipped in ((0, 0), (1, 2), (2, 3)):
        # Characters that depend on neighbouring bytes are cut off, so that the form is found inside longer base64 text.
        whole = base64.b64encode(b"\0" * shift + raw).decode()
        core = whole[skipped : (shift + len(raw)) * 8 // 6]
        if len(core) >= _SHORTEST_BASE64:
            forms |= {core, core.replace("+", "-").replace("/", "_")}
    return forms
