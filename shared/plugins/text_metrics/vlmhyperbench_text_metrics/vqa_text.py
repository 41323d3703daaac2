"""The text processing of the VQA v2 evaluation script, rule by rule, including its oddities."""

from __future__ import annotations

import re

_PUNCTUATION = ';/[]"{}()=+\\_-><@`,?!'
_COMMA_IN_NUMBER = re.compile(r"[0-9],[0-9]")
_PERIOD = re.compile(r"\.(?![0-9])")
_PERIODS = 32
"""Maximum number of removed periods: the script passes a flag in place of the count of `re.sub`."""

_NUMBER_WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_NUMBERS = {word: str(value) for value, word in enumerate(_NUMBER_WORDS)}
_NUMBERS["none"] = "0"
_ARTICLES = frozenset({"a", "an", "the"})

_CONTRACTIONS_LIST = """
    ain't aren't can't could've couldn't couldn't've didn't doesn't don't hadn't hadn't've hasn't haven't he'd he'd've
    he's how'd how'll how's isn't it'd it'd've it'll ma'am mightn't mightn't've might've mustn't must've needn't not've
    o'clock oughtn't shan't she'd've should've shouldn't shouldn't've somebody'd've somebody'll somebody's someone'd
    someone'd've someone'll someone's something'd something'd've something'll that's there'd there'd've there're there's
    they'd they'd've they'll they're they've wasn't we'd've we've weren't what'll what're what's what've when's where'd
    where's where've who'd who'd've who'll who's who've why'll why're why's won't would've wouldn't wouldn't've y'all
    y'all'll y'all'd've you'd you'd've you'll you're you've
"""


def _without_one_apostrophe(word: str) -> list[str]:
    return [word[:at] + word[at + 1 :] for at, char in enumerate(word) if char == "'"]


# Missing apostrophes are inserted; the last three lines are the script's own exceptions.
_CONTRACTIONS = {bare: word for word in _CONTRACTIONS_LIST.split() for bare in _without_one_apostrophe(word)}
_CONTRACTIONS |= {
    "twas": "'twas",
    "somebody'd": "somebodyd",
    **dict.fromkeys(("ow's'at", "'ows'at", "'ow'sat"), "'ow's'at"),
}


def trim(answer: str) -> str:
    """Replace line breaks and tabs by spaces and strip white space, which is done even if all annotators agree."""
    return answer.replace("\n", " ").replace("\t", " ").strip()


def normalise_answer(answer: str) -> str:
    """Process punctuation, then words.

    A punctuation mark that is next to a space somewhere is removed, any other becomes a space; with a comma between two
    digits all are removed. A period is removed unless a digit follows. Words are lower-cased, number words up to ten
    become digits, articles go, and contractions get a missing apostrophe back.
    """
    words = [_NUMBERS.get(word, word) for word in without_punctuation(answer).lower().split()]
    return " ".join(_CONTRACTIONS.get(word, word) for word in words if word not in _ARTICLES)


def lower_tokens(answer: str) -> str:
    """Lower-case an answer, drop commas and question marks, and split off a possessive s, as TextVQA's script does."""
    return answer.lower().replace(",", "").replace("?", "").replace("'s", " 's").strip()


def without_punctuation(answer: str) -> str:
    """Remove punctuation, or replace it by spaces, as `normalise_answer` says."""
    has_number = _COMMA_IN_NUMBER.search(answer) is not None
    plain = answer
    for mark in _PUNCTUATION:
        if mark in answer:
            is_dropped = has_number or f"{mark} " in answer or f" {mark}" in answer
            plain = plain.replace(mark, "" if is_dropped else " ")
    return _PERIOD.sub("", plain, count=_PERIODS)
