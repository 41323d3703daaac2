"""The extractors: each parses an answer in one way, or gives the reason why it cannot.

All except `text` parse only the text after the reasoning (`answers.after_reasoning`).
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, JsonValue, TypeAdapter, ValidationError

from vlmhyperbench.scoring.answers import MARKS, Unreadable, after_reasoning, announced, lines_of
from vlmhyperbench.scoring.choices import read_choice
from vlmhyperbench.scoring.numbers import Decimal, read_number
from vlmhyperbench.scoring.schema import complaint_of, schema_type
from vlmhyperbench_sdk.errors import InvalidInput, Unavailable
from vlmhyperbench_sdk.jsontext import compact_json, parse_json, repair_json


class Extractor(BaseModel):
    """A way to parse answers. Its fields are its params; a change of behaviour needs another version."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    version: ClassVar[int] = 1
    title: ClassVar[str]

    @abstractmethod
    def read(self, answer: str) -> str:
        """Return the parsed answer.

        Raises:
            Unreadable: the answer cannot be parsed.
        """


class Text(Extractor):
    """The content unchanged, without separately sent reasoning; white space is left to the metric."""

    title: ClassVar[str] = "the answer as it is"

    def read(self, answer: str) -> str:
        return answer


class AfterReasoning(Extractor):
    """The text after the reasoning in the content."""

    title: ClassVar[str] = "what follows the reasoning"

    def read(self, answer: str) -> str:
        return after_reasoning(answer).strip()


class FirstLine(Extractor):
    """The first line that is not blank."""

    title: ClassVar[str] = "the first line"

    def read(self, answer: str) -> str:
        return lines_of(after_reasoning(answer))[0].strip()


class LastLine(Extractor):
    """The last line that is not blank."""

    title: ClassVar[str] = "the last line"

    def read(self, answer: str) -> str:
        return lines_of(after_reasoning(answer))[-1].strip()


class FinalAnswer(Extractor):
    """The text after the last `####`, `answer:`, `final answer:` or `answer is`, to the end of the line.

    Emphasis, quotation marks and a full stop around it are removed. `this answer is helpful` is no announcement.
    """

    version: ClassVar[int] = 2
    title: ClassVar[str] = "what is announced as the answer"

    def read(self, answer: str) -> str:
        text = announced(after_reasoning(answer)) or ""
        final = text.partition("\n")[0].strip(MARKS).removesuffix(".").rstrip(MARKS)
        if not final:
            raise Unreadable("no_final_answer")
        return final


class Boxed(Extractor):
    r"""The content of the last `\boxed{…}`, with its braces balanced."""

    title: ClassVar[str] = "the last box"

    def read(self, answer: str) -> str:
        text = after_reasoning(answer)
        start = text.rfind("\\boxed{")
        depth = 0
        for bracket in re.finditer(r"[{}]", text[start:] if start >= 0 else ""):
            depth += 1 if bracket[0] == "{" else -1
            if depth == 0:
                return text[start + len("\\boxed{") : start + bracket.start()].strip()
        raise Unreadable("no_box")


class WithoutBoxes(Extractor):
    """The text of an answer with places, `<|ref|>…<|/ref|><|det|>[[x1, y1, x2, y2]]<|/det|>`, without the places.

    `keep` is what remains: the text around the places, where `ref` only names kinds of blocks (DeepSeek-OCR's
    Markdown), or the texts of `ref`, one a line, where these are the text itself (its layout). A place that is cut off
    at the end is no text.
    """

    title: ClassVar[str] = "the text without boxes"
    keep: Literal["around", "ref"] = "around"

    def read(self, answer: str) -> str:
        parts: dict[str, list[str]] = {"": [], "ref": [], "det": []}
        inside = ""
        for index, part in enumerate(re.split(r"<\|(/?(?:ref|det))\|>", after_reasoning(answer))):
            if index % 2:
                inside = "" if part.startswith("/") else part
            else:
                parts[inside].append(part)
        if self.keep == "around":
            return re.sub(r"\n{3,}", "\n\n", "".join(parts[""])).strip()
        if not parts["ref"]:
            raise Unreadable("no_ref")
        return "\n".join(parts["ref"])


class Number(Extractor):
    r"""The first or the last number, such as `-1234.50`, with its digits unchanged.

    Thousands are separated by spaces, apostrophes, or the comma or point that is not the decimal mark; LaTeX's `{,}`
    and `\,` count as a comma and a space. An expression that is not clearly a single number is unreadable, and no other
    number is read instead: `13.02.2017`, `3-5`, `7/10`, `10^{3}`, `12,5` with a decimal point, `5 million`, and any
    number with a full-width comma or point. Digits inside a word (`v2`) are no number; those before a unit (`5kg`) are.
    """

    version: ClassVar[int] = 2
    title: ClassVar[str] = "a number"
    which: Literal["first", "last"] = "last"
    decimal: Decimal = "."

    def read(self, answer: str) -> str:
        return read_number(after_reasoning(answer), which=self.which, decimal=self.decimal)


class Choice(Extractor):
    """The letter of a multiple choice that is announced, begins the answer, or is the only one marked as chosen.

    At the beginning, a letter must be followed by punctuation, a reason or nothing; elsewhere it must be in brackets or
    follow words such as `option` or `it is`. Negated letters do not count. Several remaining letters (`A or B`) make
    the answer unreadable. The article of `A dog` is no letter.
    """

    version: ClassVar[int] = 2
    title: ClassVar[str] = "the letter of a choice"
    letters: Annotated[str, Field(pattern=r"^[A-Z]{2,26}$")] = "ABCD"

    def read(self, answer: str) -> str:
        return read_choice(after_reasoning(answer), frozenset(self.letters))


class Pattern(Extractor):
    """The match of a regular expression: its first group, or the whole match. RE2's syntax, in linear time.

    A match without its first group (`(a)|b` on a `b`) is skipped.
    """

    title: ClassVar[str] = "what a pattern finds"
    pattern: Annotated[str, Field(min_length=1, max_length=2000)]
    which: Literal["first", "last"] = "last"
    ignore_case: bool = False

    def model_post_init(self, context: Any, /) -> None:  # noqa: ARG002 -- Pydantic's signature
        self._compiled  # noqa: B018 -- refuses an invalid pattern when the extractor is constructed

    @cached_property
    def _compiled(self) -> Any:
        try:
            import re2  # an optional dependency
        except ModuleNotFoundError as error:
            raise Unavailable(
                "The extractor 'regex' needs the library google-re2, which is not installed.",
                cure="Install vlmhyperbench with the extra scoring.",
                code="not_installed",
            ) from error

        options = re2.Options()
        options.case_sensitive = not self.ignore_case
        options.log_errors = False
        try:
            return re2.compile(self.pattern.encode(), options)
        except re2.error as error:
            complaint = error.args[0].decode(errors="replace")[:200]
            raise InvalidInput(
                f"The pattern {self.pattern[:100]!r} is invalid: {complaint}.",
                cure="Write it in RE2's syntax, which has neither lookarounds nor backreferences.",
            ) from error

    def read(self, answer: str) -> str:
        # Matched as bytes, because RE2 reads UTF-8 and an answer may contain lone surrogates.
        matches = self._compiled.finditer(after_reasoning(answer).encode("utf-8", "replace"))
        taken: bytes | None = None
        reason = "no_match"
        for match in matches:
            text: bytes | None = match[1] if self._compiled.groups else match[0]
            if text is None:
                reason = "no_group"
                continue
            taken = text
            if self.which == "first":
                break
        if taken is None:
            raise Unreadable(reason)
        return taken.decode("utf-8", "replace")


class Json(Extractor):
    """The answer if it is JSON (RFC 8259) that matches a schema; or one of its values, by a path `seller.0.name`.

    Without a path, the JSON is returned unchanged. With a path, a text is returned as it is, a number with the digits
    that were written (`12.50`), and any other value as JSON with sorted keys and without white space.
    """

    title: ClassVar[str] = "JSON"
    json_schema: JsonValue = Field(default=None, alias="schema")
    path: Annotated[str | None, Field(max_length=500)] = None

    def model_post_init(self, context: Any, /) -> None:  # noqa: ARG002 -- Pydantic's signature
        self._type  # noqa: B018 -- refuses an unusable schema when the extractor is constructed

    @cached_property
    def _type(self) -> TypeAdapter[Any] | None:
        return None if self.json_schema is None else schema_type(self.json_schema)

    def read(self, answer: str) -> str:
        text = self._json(after_reasoning(answer))
        try:
            value = cast("JsonValue", parse_json(text, any_text=True))
        except InvalidInput:
            raise Unreadable("no_json") from None
        if self._type is not None:
            try:
                self._type.validate_python(value)
            except ValidationError as error:
                raise Unreadable(f"schema: {complaint_of(error.errors())}"[:200]) from None
        if self.path is None:
            return text.strip()
        value_at_path = _value_at(cast("JsonValue", parse_json(text, any_text=True, exact=True)), self.path)
        return str(value_at_path) if isinstance(value_at_path, str) else compact_json(value_at_path)

    def _json(self, text: str) -> str:
        return text


class RepairedJson(Json):
    """Like `json`, after the declared repairs: the first code fence, the first balanced object (or array)."""

    title: ClassVar[str] = "JSON, repaired"
    opening: Literal["{", "["] = "{"

    def _json(self, text: str) -> str:
        return repair_json(text, opening=self.opening)[0]


EXTRACTORS: Mapping[str, type[Extractor]] = MappingProxyType(
    {
        "text": Text,
        "after_reasoning": AfterReasoning,
        "first_line": FirstLine,
        "last_line": LastLine,
        "final_answer": FinalAnswer,
        "boxed": Boxed,
        "without_boxes": WithoutBoxes,
        "number": Number,
        "choice": Choice,
        "regex": Pattern,
        "json": Json,
        "json_repaired": RepairedJson,
    }
)


def _value_at(value: JsonValue, path: str) -> JsonValue:
    for part in path.split("."):
        if isinstance(value, dict) and part in value:
            value = value[part]
        elif isinstance(value, list) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        else:
            raise Unreadable(f"no_field: {path}"[:200])
    return value
