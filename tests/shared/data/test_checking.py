"""What is found in a dataset before anything is asked: broken, blank, doubled, leaking; and how images are prepared."""

from __future__ import annotations

import hashlib
import io
import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image as Pillow

from tests.support.wording import Wording
from vlmhyperbench.data.checking import Checked, check_dataset
from vlmhyperbench.data.enumerating import index
from vlmhyperbench.data.previewing import preview_dataset
from vlmhyperbench.data.samples import Selection
from vlmhyperbench.domain.specs import DatasetSpec, Limits
from vlmhyperbench.errors import Conflict, InvalidInput, NotFound
from vlmhyperbench.storage import open_storage


def picture(shade: int, *, size: tuple[int, int] = (8, 4), form: str = "PNG") -> bytes:
    image = Pillow.new("RGB", size, (shade, 0, 0))
    image.putpixel((0, 0), (255, 255, 255))
    file = io.BytesIO()
    image.save(file, form)
    return file.getvalue()


def blank() -> bytes:
    file = io.BytesIO()
    Pillow.new("RGB", (8, 4), (90, 90, 90)).save(file, "PNG")
    return file.getvalue()


def row(key: str, image: str, question: str = "?", split: str = "test", **fields: Any) -> dict[str, Any]:
    return {"id": key, "question": question, "image": image, "answer": "a", "split": split, **fields}


def spec_of(folder: Path, rows: list[dict[str, Any]], images: dict[str, bytes], **fields: Any) -> DatasetSpec:
    for name, data in images.items():
        (folder / name).write_bytes(data)
    (folder / "rows.jsonl").write_text("".join(json.dumps(line) + "\n" for line in rows))
    given = {"name": "d", "version": "1.0.0", "type": "table", "path": str(folder / "rows.jsonl"), **fields}
    return DatasetSpec.model_validate(given)


def counts(checked: Checked) -> dict[str, tuple[int, list[str]]]:
    return {code: (finding.count, finding.keys) for code, finding in checked.findings.items()}


def test_what_would_spoil_a_run_is_found(tmp_path: Path) -> None:
    images = {"a.png": picture(1), "b.png": picture(2), "a.webp": b"no image", "blank.png": blank()}
    again = io.BytesIO()
    with Pillow.open(io.BytesIO(images["a.png"])) as first:
        first.save(again, "PNG", compress_level=0)
    images["again.png"] = again.getvalue()
    rows = [
        row("1", "a.png"),
        row("2", "b.png", "Which?"),
        row("3", "a.webp"),
        row("4", "blank.png"),
        row("5", "again.png", "What  Else?"),
        row("2", "b.png", "Which?"),
        row("6", "a.png", answer=""),
        row("t1", "a.png", "what else?", split="train"),
        row("t2", "b.png", "another?", split="train"),
    ]
    spec = spec_of(tmp_path, rows, images, split="test")
    checked = check_dataset(spec, Limits(), against=["train"])
    assert (checked.samples, checked.images) == (7, 7)
    assert counts(checked) == {
        "broken_image": (1, ["3"]),
        "blank_image": (1, ["4"]),
        "doubled_image": (1, ["5"]),
        "leak": (1, ["5"]),
        "doubled_key": (1, ["2"]),
        "doubled_question": (1, ["6"]),
        "no_reference": (1, ["6"]),
    }
    assert {code for code, finding in checked.findings.items() if finding.is_error} == {
        "broken_image",
        "leak",
        "doubled_key",
    }


def test_questions_without_images_are_the_same_where_their_metadata_is(tmp_path: Path) -> None:
    rows = [
        {"id": "1", "question": "Is it true?", "answer": "yes", "passage": "first", "split": "test"},
        {"id": "2", "question": "Is it true?", "answer": "yes", "passage": "second", "split": "test"},
        {"id": "3", "question": "is it  true?", "answer": "yes", "passage": "second", "split": "test"},
        {"id": "t1", "question": "Is it true?", "answer": "yes", "passage": "third", "split": "train"},
        {"id": "t2", "question": "Is it true?", "answer": "yes", "passage": "first", "split": "train"},
    ]
    checked = check_dataset(spec_of(tmp_path, rows, {}, split="test"), Limits(), against=["train"])
    assert counts(checked) == {"leak": (1, ["1"]), "doubled_question": (1, ["3"])}


def test_a_key_of_two_rows_is_refused_with_the_place_of_each(tmp_path: Path, wording: Wording) -> None:
    rows = [row("1", "a.png"), row("x", "a.png"), row("2", "a.png"), row("x", "a.png", "Which?")]
    spec, file = spec_of(tmp_path, rows, {"a.png": picture(1)}), tmp_path / "rows.jsonl"
    with pytest.raises(InvalidInput) as refused:
        index(spec, Limits(), open_storage(str(tmp_path / "storage")))
    assert refused.value.code == "doubled_key"
    assert f"'x' at {file}:2 and again at {file}:4" in refused.value.message
    wording(refused.value, TMP=tmp_path)
    detail = check_dataset(spec, Limits()).findings["doubled_key"].detail
    assert detail == f"'x' is the key of {file}:2 and of {file}:4"


def test_a_dataset_without_faults_has_no_findings(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, [row("1", "a.png"), row("2", "b.png")], {"a.png": picture(1), "b.png": picture(2)})
    assert check_dataset(spec, Limits()).findings == {}


def test_hashes_are_compared_before_anything_is_read(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, [row("1", "a.png")], {"a.png": picture(1)})
    right = hashlib.sha256((tmp_path / "rows.jsonl").read_bytes()).hexdigest()
    assert check_dataset(spec.model_copy(update={"sha256": {".": right}}), Limits()).samples == 1
    folder = spec.model_copy(update={"path": str(tmp_path), "sha256": {"a.png": "0" * 64}})
    for wrong, refusal in (
        (spec.model_copy(update={"sha256": {".": "0" * 64}}), Conflict),
        (folder, Conflict),
        (folder.model_copy(update={"sha256": {"b.png": right}}), NotFound),
        (folder.model_copy(update={"sha256": {"../x": right}}), InvalidInput),
    ):
        with pytest.raises(refusal):
            check_dataset(wrong, Limits())


def test_filters_and_draws_select_and_an_empty_selection_names_the_values(tmp_path: Path) -> None:
    rows = [row(str(number), "a.png", pages=number, kind="ab"[number % 2]) for number in range(8)]
    spec = spec_of(tmp_path, rows, {"a.png": picture(1)}, where=["pages>=2", "kind=a"])
    assert [sample.key for sample in Selection(spec)] == ["2", "4", "6"]
    selection = Selection(
        spec_of(tmp_path, rows, {"a.png": picture(1)}, sampling={"size": 4, "by": ["kind"], "allocation": "equal"})
    )
    first, second = ([sample.key for sample in selection] for _ in range(2))
    assert first == second == sorted(first)
    assert sorted(int(key) % 2 for key in first) == [0, 0, 1, 1]
    with pytest.raises(InvalidInput, match="kind a, b"):
        list(Selection(spec.model_copy(update={"where": ("kind=c",)})))


@pytest.mark.parametrize(
    ("steps", "size", "is_grey"),
    [
        ([], (8, 4), False),
        ([{"step": "rotate", "degrees": 90}], (4, 8), False),
        ([{"step": "resize", "max_side": 4}, {"step": "greyscale"}], (4, 2), True),
        ([{"step": "resize", "max_side": 400}], (8, 4), False),
    ],
)
def test_images_are_prepared_as_declared(
    tmp_path: Path, steps: list[dict[str, Any]], size: tuple[int, int], is_grey: bool
) -> None:
    from vlmhyperbench.data.preprocessing import prepared

    spec = spec_of(tmp_path, [row("1", "a.png")], {"a.png": picture(7)}, preprocess=steps)
    with Pillow.open(io.BytesIO(prepared(picture(7), spec.preprocess))) as image:
        assert (image.size, image.mode == "L") == (size, is_grey)
    (shown,) = preview_dataset(spec, Limits())
    assert shown.images[0].startswith(f"{size[0]} × {size[1]} image/png")


def test_pages_are_kept_by_number_and_a_page_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    columns = {"question": "question", "images": "pages"}
    rows = [{"question": "?", "pages": ["a.png", "b.png"]}, {"question": "?", "pages": ["a.png"]}]
    steps = [{"step": "pages", "keep": [-1, 0]}]
    images = {"a.png": picture(1), "b.png": picture(2, size=(9, 9))}
    spec = spec_of(tmp_path, rows, images, preprocess=steps, params={"columns": columns})
    both, single = preview_dataset(spec, Limits())
    assert [text[:5] for text in both.images] == ["9 × 9", "8 × 4"]
    assert len(single.images) == 2
    third = spec.model_copy(update={"preprocess": (spec.preprocess[0].model_copy(update={"keep": (2,)}),)})
    assert counts(check_dataset(third, Limits()))["broken_image"] == (2, ["0", "1"])


def test_text_that_cannot_be_stored_is_an_error_and_no_crash(tmp_path: Path) -> None:
    rows = [row("1", "a.png", "half a pair \ud800"), row("2", "b.png", "\0"), row("3", "c.png")]
    spec = spec_of(tmp_path, rows, {f"{name}.png": picture(shade) for shade, name in enumerate("abc")})
    assert counts(check_dataset(spec, Limits()))["broken_text"] == (2, ["1", "2"])


def test_a_draw_by_metadata_that_no_sample_has_is_refused_with_the_nearest_name(tmp_path: Path) -> None:
    rows = [row(str(number), "a.png", kind="x") for number in range(4)]
    sampling = {"size": 2, "by": ["kinds"]}
    columns = {"key": "id", "question": "question", "images": "image", "metadata": ["kind"]}
    spec = spec_of(tmp_path, rows, {"a.png": picture(1)}, sampling=sampling, params={"columns": columns})
    with pytest.raises(InvalidInput, match="kinds") as refused:
        list(Selection(spec))
    assert "kind?" in (refused.value.cure or "")


def test_a_filter_that_excludes_values_of_metadata_that_no_sample_has_is_refused(tmp_path: Path) -> None:
    rows = [row(str(number), "a.png", kind="ab"[number % 2]) for number in range(4)]
    columns = {"key": "id", "question": "question", "images": "image", "metadata": ["kind"]}
    spec = spec_of(tmp_path, rows, {"a.png": picture(1)}, where=["kinds!=a"], params={"columns": columns})
    with pytest.raises(InvalidInput, match="kinds") as refused:
        list(Selection(spec))
    assert "kind?" in (refused.value.cure or "")
    assert len(list(Selection(spec.model_copy(update={"where": ("kind!=a",)})))) == 2
