"""The rule against repetition, without any library: which tokens would repeat a sequence of tokens of the answer."""

from __future__ import annotations

from collections.abc import Collection, Sequence


def banned_tokens(output: Sequence[int], *, size: int, window: int, allowed: Collection[int] = ()) -> set[int]:
    """Return the tokens that would end a sequence of `size` tokens that began within the last `window` tokens.

    Args:
        output: Tokens of the answer so far.
        size: Length of the sequences that must not repeat; 0: none.
        window: Number of last tokens in which a sequence may have begun.
        allowed: Tokens that may repeat, such as those of a table's cells.

    Source: the processor `no_repeat_ngram` of DeepSeek-OCR's code for vLLM.
    """
    if size < 1 or len(output) < size:
        return set()
    prefix = [*output[len(output) - size + 1 :]]
    starts = range(max(0, len(output) - window), len(output) - size + 1)
    repeated = {output[start + size - 1] for start in starts if [*output[start : start + size - 1]] == prefix}
    return repeated.difference(allowed)
