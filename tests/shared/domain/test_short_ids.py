from __future__ import annotations

from uuid import UUID

import pytest

from vlmhyperbench.domain.short_ids import ids_from, short
from vlmhyperbench.errors import InvalidInput

WHOLE = UUID("1f0c3a9e-0000-4000-8000-0000000000ab")


def test_digits_stand_for_every_id_that_begins_with_them() -> None:
    first, last = ids_from("1F0C-3a")
    assert (str(first), str(last)) == ("1f0c3a00-0000-0000-0000-000000000000", "1f0c3aff-ffff-ffff-ffff-ffffffffffff")
    assert first <= WHOLE <= last
    assert ids_from(WHOLE.hex) == (WHOLE, WHOLE)
    assert ids_from(short(WHOLE))[0] <= WHOLE <= ids_from(short(WHOLE))[1]


@pytest.mark.parametrize(
    "text", ["", "-", "1f0", "../../etc/passwd", "1f0c3a9g", "é" * 8, "a" * 33, "1f0c\x00", "1f0c\n"]
)
def test_a_text_that_is_not_the_beginning_of_an_id_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        ids_from(text)
    assert refused.value.cure
