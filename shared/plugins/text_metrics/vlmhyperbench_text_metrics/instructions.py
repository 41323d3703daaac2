"""Checks of the instructions of IFEval: whether a response follows one of them, by the definitions of its authors.

Arguments are matched as text; the script of the authors reads keywords as regular expressions, which differs for none
of the benchmark's. Every check takes time in proportion to the response.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Final

from vlmhyperbench_sdk.types import JsonObject, JsonValue

if TYPE_CHECKING:
    from nltk.tokenize import NLTKWordTokenizer

UNCHECKED: Final[Mapping[str, str]] = {
    "length_constraints:number_sentences": "unchecked_number_sentences",
    "language:response_language": "unchecked_response_language",
    "change_case:english_capital": "unchecked_english_capital",
    "change_case:english_lowercase": "unchecked_english_lowercase",
}
"""Instruction whose check needs NLTK's trained splitter of sentences, or langdetect's guess of the language, which
changes from run to run → why a sample that has it is unscored."""
OPTIONS: Final = ("My answer is yes.", "My answer is no.", "My answer is maybe.")


class BadArguments(Exception):
    """The arguments of an instruction are missing or of another type."""


def is_followed(instruction: str, arguments: JsonObject, response: str) -> bool:
    """Say whether a response follows an instruction; a blank one follows none.

    Args:
        instruction: Its name, a key of `CHECKS`.
        arguments: Arguments by name.
        response: What the model wrote.

    Raises:
        BadArguments: an argument is missing or has another type.
    """
    return CHECKS[instruction](response, arguments) and bool(response.strip())


def variants(response: str) -> list[str]:
    """Return a response as the loose reading takes it: without the first line, the last, both, and asterisks."""
    lines = response.split("\n")
    cut = [response, *("\n".join(part).strip() for part in (lines[1:], lines[:-1], lines[1:-1]))]
    return list(dict.fromkeys([*cut, *(text.replace("*", "") for text in cut)]))


def _text(arguments: JsonObject, name: str) -> str:
    value = arguments.get(name)
    if not isinstance(value, str) or not value.strip():
        raise BadArguments(name)
    return value.strip()


def _texts(arguments: JsonObject, name: str) -> list[str]:
    values = arguments.get(name)
    if not isinstance(values, (list, tuple)) or not values or not all(isinstance(value, str) for value in values):
        raise BadArguments(name)
    return [str(value) for value in values]


def _number(arguments: JsonObject, name: str) -> float:
    value: JsonValue = arguments.get(name)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value < 0:
        raise BadArguments(name)
    return value


def _holds(count: int, arguments: JsonObject, *, relation: str, threshold: str) -> bool:
    wanted = arguments.get(relation)
    if wanted not in ("less than", "at least"):
        raise BadArguments(relation)
    limit = _number(arguments, threshold)
    return count < limit if wanted == "less than" else count >= limit


def _occurrences(word: str, response: str) -> int:
    return len(re.findall(re.escape(word), response, re.IGNORECASE))


def _keywords(response: str, arguments: JsonObject) -> bool:
    return all(_occurrences(word, response) for word in _texts(arguments, "keywords"))


def _frequency(response: str, arguments: JsonObject) -> bool:
    count = _occurrences(_text(arguments, "keyword"), response)
    return _holds(count, arguments, relation="relation", threshold="frequency")


def _forbidden(response: str, arguments: JsonObject) -> bool:
    words = _texts(arguments, "forbidden_words")
    return not any(re.search(rf"\b{re.escape(word)}\b", response, re.IGNORECASE) for word in words)


def _letters(response: str, arguments: JsonObject) -> bool:
    count = response.lower().count(_text(arguments, "letter").lower())
    return _holds(count, arguments, relation="let_relation", threshold="let_frequency")


def _words(response: str, arguments: JsonObject) -> bool:
    return _holds(len(re.findall(r"\w+", response)), arguments, relation="relation", threshold="num_words")


def _paragraphs(response: str, arguments: JsonObject) -> bool:
    parts = re.split(r"\s?\*\*\*\s?", response)
    if not all(part.strip() for part in parts[1:-1]):
        return False
    ends = parts[:1] if len(parts) == 1 else [parts[0], parts[-1]]
    return len(parts) - sum(not part.strip() for part in ends) == _number(arguments, "num_paragraphs")


def _nth_first_word(response: str, arguments: JsonObject) -> bool:
    paragraphs = response.split("\n\n")
    wanted, nth = _number(arguments, "num_paragraphs"), int(_number(arguments, "nth_paragraph"))
    first_word = _text(arguments, "first_word").lower()
    if not 1 <= nth <= wanted:
        raise BadArguments("nth_paragraph")
    count = sum(bool(paragraph.strip()) for paragraph in paragraphs)
    words = paragraphs[nth - 1].split(maxsplit=1) if nth <= count else []
    if not words:
        return False
    start = re.match(r"[^.,?!'\"]*", words[0].lstrip("'").lstrip('"'))
    return count == wanted and start is not None and start[0].lower() == first_word


def _placeholders(response: str, arguments: JsonObject) -> bool:
    count = 0
    for line in response.split("\n"):
        begin = line.find("[")
        while begin >= 0 and (end := line.find("]", begin)) >= 0:
            count, begin = count + 1, line.find("[", end)
    return count >= _number(arguments, "num_placeholders")


def _postscript(response: str, arguments: JsonObject) -> bool:
    marker, lowered = _text(arguments, "postscript_marker"), response.lower()
    if marker == "P.P.S":
        return re.search(r"p\.\s?p\.\s?s", lowered) is not None
    if marker == "P.S.":
        return re.search(r"p\.\s?s\.", lowered) is not None
    return marker.lower() in lowered


def _bullets(response: str, arguments: JsonObject) -> bool:
    lines = response.split("\n")
    is_blank = [not line.strip() for line in lines]
    # A second blank line after the first changes no count, but would make the search quadratic.
    text = "\n".join(line for i, line in enumerate(lines) if i == 0 or not (is_blank[i] and is_blank[i - 1]))
    stars = re.findall(r"^\s*\*[^*].*$", text, re.MULTILINE)
    dashes = re.findall(r"^\s*-.*$", text, re.MULTILINE)
    return len(stars) + len(dashes) == _number(arguments, "num_bullets")


def _options(response: str, _arguments: JsonObject) -> bool:
    return any(option in response for option in OPTIONS)


def _highlights(response: str, arguments: JsonObject) -> bool:
    single = re.findall(r"\*([^\n*]*)\*", response)
    double = re.findall(r"\*\*([^\n*]*)\*\*", response)
    return sum(bool(text.strip()) for text in [*single, *double]) >= _number(arguments, "num_highlights")


def _sections(response: str, arguments: JsonObject) -> bool:
    splitter = re.escape(_text(arguments, "section_spliter"))
    return len(re.findall(rf"{splitter}\s?\d+", response)) >= _number(arguments, "num_sections")


def _json(response: str, _arguments: JsonObject) -> bool:
    text = response.strip()
    for fence in ("```json", "```Json", "```JSON", "```"):
        text = text.removeprefix(fence)
    try:
        json.loads(text.removesuffix("```").strip())
    except (ValueError, RecursionError):
        return False
    return True


def _title(response: str, _arguments: JsonObject) -> bool:
    for line in response.split("\n"):
        begin, end = line.find("<<"), line.rfind(">>")
        if 0 <= begin <= end - 3 and line[begin:end].lstrip("<").rstrip(">").strip():
            return True
    return False


def _two_responses(response: str, _arguments: JsonObject) -> bool:
    parts = [part.strip() for part in response.split("******")]
    if not all(parts[1:-1]):
        return False
    written = [part for part in parts if part]
    return len(written) == 2 and written[0] != written[1]


def _repeated(response: str, arguments: JsonObject) -> bool:
    return response.strip().lower().startswith(_text(arguments, "prompt_to_repeat").lower())


def _end(response: str, arguments: JsonObject) -> bool:
    return response.strip().strip('"').lower().endswith(_text(arguments, "end_phrase").lower())


def _quotation(response: str, _arguments: JsonObject) -> bool:
    text = response.strip()
    return len(text) > 1 and text[0] == text[-1] == '"'


@cache
def _tokenizer() -> NLTKWordTokenizer:
    from nltk.tokenize import NLTKWordTokenizer  # takes a second to import

    return NLTKWordTokenizer()


def _capital_words(response: str, arguments: JsonObject) -> bool:
    # The script splits sentences first, which matters to this count in one way: a full stop at the end of a sentence
    # is a word of its own, so that IT'S. has two words in capitals. Runs of spaces would make the tokenizer quadratic.
    text = re.sub(r"(?<=\w)\.(?=[\"')\]]*(?: |$))", " .", " ".join(response.split()))
    count = sum(word.isupper() for word in _tokenizer().tokenize(text))
    return _holds(count, arguments, relation="capital_relation", threshold="capital_frequency")


def _no_comma(response: str, _arguments: JsonObject) -> bool:
    return "," not in response


CHECKS: Final[Mapping[str, Callable[[str, JsonObject], bool]]] = {
    "keywords:existence": _keywords,
    "keywords:frequency": _frequency,
    "keywords:forbidden_words": _forbidden,
    "keywords:letter_frequency": _letters,
    "length_constraints:number_words": _words,
    "length_constraints:number_paragraphs": _paragraphs,
    "length_constraints:nth_paragraph_first_word": _nth_first_word,
    "detectable_content:number_placeholders": _placeholders,
    "detectable_content:postscript": _postscript,
    "detectable_format:number_bullet_lists": _bullets,
    "detectable_format:constrained_response": _options,
    "detectable_format:number_highlighted_sections": _highlights,
    "detectable_format:multiple_sections": _sections,
    "detectable_format:json_format": _json,
    "detectable_format:title": _title,
    "combination:two_responses": _two_responses,
    "combination:repeat_prompt": _repeated,
    "startend:end_checker": _end,
    "startend:quotation": _quotation,
    "change_case:capital_word_frequency": _capital_words,
    "punctuation:no_comma": _no_comma,
}
"""Instruction → its check, which gets the response and the arguments."""
