"""Images on their way through a file of answers: each once, within bounds, and never fetched from anywhere."""

from __future__ import annotations

import pytest

from tests.shared.exchange.reading import DATA, taken
from tests.shared.reports.builders import thumbnail
from vlmhyperbench.errors import NotFound
from vlmhyperbench.exchange import pictures
from vlmhyperbench.exchange.pictures import SAME, Budget, Pictures, data_url, digest_of_url

ONE, TWO = "data:image/png;base64,QQ==", "data:image/png;base64,Qg=="


def test_a_log_of_inspect_keeps_the_images_of_what_the_user_said() -> None:
    file, found = taken(DATA / "inspect_ai-0.3.285-images.eval")
    kinds = {(answer.key, answer.repeat): [url[:10] for url in answer.image_urls] for answer in found}
    assert {key: kinds[key, 0] for key in ("red-1", "red-2", "both", "broken")} == {
        "red-1": ["data:image"],
        "red-2": [f"{SAME}{digest_of_url(found[0].image_urls[0])}"[:10]],
        "both": [f"{SAME}{digest_of_url(found[0].image_urls[0])}"[:10], "data:image"],
        "broken": ["data:image"],
    }
    assert {answer.repeat: len(answer.image_urls) > 0 for answer in found} == {0: True, 1: False}
    assert (next(answer.question for answer in found), file.notes) == ("What colour?", [])


def test_an_image_stands_once_and_then_its_name() -> None:
    budget = Budget()
    assert budget.of([ONE, TWO, ONE]) == (ONE, TWO, SAME + digest_of_url(ONE))
    assert budget.of([TWO]) == (SAME + digest_of_url(TWO),)


def test_images_beyond_the_bounds_are_left_out_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pictures, "MAX_IN_ALL_BYTES", len(ONE))
    budget = Budget()
    first, second, third = budget.of([ONE, TWO, "http://x/" + "y" * 1000])
    assert (first, second.startswith("data:"), budget.left_out, len(third)) == (ONE, False, 1, 200)
    monkeypatch.undo()
    monkeypatch.setattr(pictures, "MAX_OF_SAMPLE_BYTES", len(ONE))
    budget = Budget()
    assert (budget.of([ONE, TWO])[0], budget.left_out, budget.of([TWO])) == (ONE, 1, (TWO,))


def test_an_answer_leaves_with_all_of_its_images_or_none(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def fetch(sha256: str) -> bytes:
        asked.append(sha256)
        if sha256 == "gone":
            raise NotFound("It is gone.")
        return thumbnail().data

    url = data_url(thumbnail().data)
    assert url.startswith("data:image/webp;base64,")
    out = Pictures(fetch)
    assert [out.of(("a",)), out.of(("a",)), out.of(("a", "gone")), out.of(())] == [{"a": url}, {"a": url}, {}, {}]
    assert (asked, out.left_out) == (["a", "gone"], 2)
    monkeypatch.setattr(pictures, "MAX_OF_SAMPLE_BYTES", len(url))
    assert (Pictures(fetch).of(("a", "b")), Pictures(fetch).of(("a",))) == ({}, {"a": url})
