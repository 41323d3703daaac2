"""Parse the letter that an answer to a multiple-choice question gives; an answer with several letters is unreadable."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from vlmhyperbench.scoring.answers import Unreadable, announced

_TOKEN: Final = re.compile(
    r"\d+(?:[.,]\d+)+[^\W_]*"
    r"|[^\W_]+(?:['\N{RIGHT SINGLE QUOTATION MARK}-][^\W_]+|\+\+|#)*"
    r"|[^\w\s*`\"'\N{LEFT DOUBLE QUOTATION MARK}\N{RIGHT DOUBLE QUOTATION MARK}]"
)
"""Words, including compounds (`isn't`, `C++`, `B-12`), and punctuation without emphasis and quotation marks."""
_OPENING: Final = frozenset("([{$")
_CLOSING: Final = frozenset(")]}$")
_LIST_MARKS: Final = frozenset(").:],-\N{EN DASH}\N{EM DASH}")
_ENDS: Final = frozenset(".!?;")
_JOINING: Final = frozenset(
    {"or", "and", "nor", ",", "/", "&", "+", "|", "either", "both", "maybe", "perhaps", "possibly"}
) | frozenset("-\N{EN DASH}\N{EM DASH}")
_FILLING: Final = frozenset({"option", "options", "choice", "letter", "the", "be", "of", "than"})
_LEADING: Final = frozenset({"option", "choice", "letter", "definitely", "clearly", "the"})
_CUES: Final = frozenset(
    {"option", "choice", "letter", "answer", "be", "is", "choose", "pick", "select", "with", "so", "thus", "hence"}
) | frozenset({"therefore", "think", "say", "it's", ":", "=", "\N{RIGHTWARDS ARROW}"})
_REASONS: Final = frozenset({"because", "since", "due"})
_AFTER: Final = _REASONS | frozenset({"or", "and", "nor", "but", "which", "not"})
_VERBS: Final = frozenset(
    {"is", "isn't", "are", "was", "has", "had", "does", "doesn't", "can", "can't", "cannot", "could", "may", "might"}
) | frozenset({"would", "should", "seems", "looks", "appears"})
_NEGATIONS: Final = frozenset({"not", "never", "neither", "nor", "rather", "instead", "except", "without", "cannot"})
_DOUBTS: Final = frozenset({"?", "no", "none", "wrong", "incorrect", "false", "unlikely", "if", "whether", "unless"})
_ARTICLES: Final = frozenset("AI")
"""Letters that are also words: before another word they may be no choice."""
_RIGHT: Final = re.compile(r"(?:is|would be) (?:the )?(?:most likely |best )?(?:correct|right|best|true|answer)\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Mention:
    """A letter as a word of its own in a sentence, not negated."""

    letter: str
    is_first: bool
    """Only brackets and words such as `option` precede it."""
    is_free: bool
    """It is not followed by a word that it may belong to, as in `A dog` and `B shows`."""
    is_enclosed: bool
    """It is in brackets."""
    is_listed: bool
    """It is written as the label of an option: `(B)`, `B) cat`, `B: cat`."""
    is_joined: bool
    """It is part of an enumeration: `or B`."""
    is_cued: bool
    """A cue marks it as chosen (`option B`, `it is B`, `B is right`), or it is the whole sentence."""
    is_subject: bool
    """A verb follows, as in `B is missing`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sentence:
    mentions: tuple[_Mention, ...]
    is_doubted: bool = False
    """It is a question, or negates something other than letters."""


def read_choice(text: str, letters: Collection[str]) -> str:
    """Return the letter that is announced, or that begins the text, or that is the only letter marked as chosen.

    Linear in the text's length.

    Raises:
        Unreadable: `no_choice`, or `several_choices`.
    """
    claimed = list(_sentences(announced(text) or "", letters))
    if claimed and claimed[0].mentions:
        return _settled(
            {_claimed(claimed[0])}
            | {mention.letter for mention in _stated(claimed[1:]) if mention.is_free and mention.is_cued}
        )
    sentences = list(_sentences(text, letters))
    if sentences and _begins(sentences[0]):
        return _settled(
            {_claimed(sentences[0])} | {mention.letter for mention in _stated(sentences[1:]) if _is_set_apart(mention)}
        )
    stated = _stated(sentences)
    _settled({mention.letter for mention in stated if mention.is_free or mention.letter != "I"})
    return _settled(
        {mention.letter for mention in stated if mention.is_free and (mention.is_cued or mention.is_enclosed)}
    )


def _claimed(sentence: _Sentence) -> str:
    """Return the letter of a sentence that should contain one: its first word, or its only letter."""
    lead = next(iter(sentence.mentions))
    if lead.is_first and (lead.is_free or not (lead.letter in _ARTICLES or lead.is_subject)):
        rivals = sentence.mentions[1:]
        if lead.is_listed:  # the option's text follows, in which letters are no choices
            return _settled(
                {lead.letter} | {mention.letter for mention in rivals if mention.is_joined or _is_set_apart(mention)}
            )
        return _settled({lead.letter} | {mention.letter for mention in rivals if _counts(mention)})
    _settled({mention.letter for mention in sentence.mentions if _counts(mention)})
    return _settled({mention.letter for mention in _stated([sentence]) if mention.is_free})


def _begins(sentence: _Sentence) -> bool:
    lead = next(iter(sentence.mentions), None)
    return lead is not None and lead.is_first and lead.is_free and (lead.is_listed or not sentence.is_doubted)


def _counts(mention: _Mention) -> bool:
    return mention.is_free or mention.letter not in _ARTICLES


def _is_set_apart(mention: _Mention) -> bool:
    return mention.is_free and (mention.is_cued or mention.is_listed)


def _stated(sentences: Sequence[_Sentence]) -> list[_Mention]:
    return [mention for sentence in sentences if not sentence.is_doubted for mention in sentence.mentions]


def _settled(letters: set[str]) -> str:
    if len(letters) != 1:
        raise Unreadable("several_choices" if letters else "no_choice")
    return letters.pop()


def _sentences(text: str, letters: Collection[str]) -> Iterator[_Sentence]:
    """Split a text at the ends of lines and sentences; the point of `A. cat` ends no sentence."""
    for line in text.splitlines():
        tokens: list[str] = []
        for token in _TOKEN.findall(line):
            ends = token in _ENDS and not (tokens and tokens[-1] in letters)
            tokens.append(token)
            if ends:
                yield _sentence(tokens, letters)
                tokens = []
        if tokens:
            yield _sentence(tokens, letters)


def _sentence(tokens: Sequence[str], letters: Collection[str]) -> _Sentence:
    mentions: list[_Mention] = []
    is_doubted = is_denying = False
    is_used = True  # whether the last negation applied to a letter
    for no, token in enumerate(tokens):
        word = token.lower()
        if token in letters:
            if is_denying:
                is_used = True
            else:
                mentions.append(_mention(tokens, no, letters))
        elif word in _REASONS and mentions:
            break
        elif _denies(word):
            is_doubted |= not is_used
            is_denying, is_used = True, False
        elif not (word in _FILLING or word in _JOINING or word in _OPENING or word in _CLOSING):
            is_doubted |= word in _DOUBTS or not is_used
            is_denying, is_used = False, True
    return _Sentence(mentions=tuple(mentions), is_doubted=is_doubted or not is_used)


def _denies(word: str) -> bool:
    return word in _NEGATIONS or word.endswith(("n't", "n\N{RIGHT SINGLE QUOTATION MARK}t"))


def _mention(tokens: Sequence[str], no: int, letters: Collection[str]) -> _Mention:
    before, after = tokens[max(0, no - 4) : no], tokens[no + 1 : no + 7]
    follows = after[0].lower() if after else ""
    is_enclosed = bool(before) and before[-1] in _OPENING and follows in _CLOSING
    cue = next((token.lower() for token in reversed(before) if token not in _OPENING), "")
    is_right = follows in _VERBS and _RIGHT.match(" ".join(after).lower()) is not None
    is_alone = len(tokens) <= 4 and not any(
        token[0].isalnum() and token.lower() not in _JOINING for token in (*tokens[:no], *tokens[no + 1 :])
    )
    is_word = follows[:1].isalnum() and follows not in _AFTER and tokens[no + 1] not in letters and not is_right
    return _Mention(
        letter=tokens[no],
        is_first=no <= 4 and all(token in _OPENING or token.lower() in _LEADING for token in before),
        is_free=not is_word and follows != "?",
        is_enclosed=is_enclosed,
        is_listed=is_enclosed or (follows in _LIST_MARKS and len(after) > 1),
        is_joined=cue in _JOINING or (cue in _LIST_MARKS and not follows[:1].isalnum()),
        is_cued=is_alone or is_right or cue in _CUES,
        is_subject=follows in _VERBS and not is_right,
    )
