"""Documents as JSON: pages beside their truth, fields and boxes, and COCO's form."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support import tables
from vlmhyperbench_sdk.errors import InvalidInput, NotFound
from vlmhyperbench_sdk.protocols import DatasetSource
from vlmhyperbench_sdk.types import Sample
from vlmhyperbench_table_datasets.table import TableDataset


def read(path: Path, **params: Any) -> list[Sample]:
    return list(TableDataset(DatasetSource(path=path, params=params)))


def write(folder: Path, files: dict[str, Any]) -> Path:
    for name, content in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content) if isinstance(content, bytes) else file.write_text(json.dumps(content))
    return folder


def pages(sample: Sample, root: Path) -> list[str]:
    return [image.path.relative_to(root).as_posix() for image in sample.images if image.path is not None]


def test_a_document_is_its_pages_in_order_with_its_truth(tmp_path: Path) -> None:
    page = tables.png(1)
    names = ("a-9.png", "a-10.png", "a-note.png", "ab.png", "b/2.png", "b/1.png")
    truth = {"total": "9.50", "lines": [{"text": "x", "box": [1, 2, 3, 4]}]}
    write(tmp_path, {"a.json": truth, "b.json": {"total": "1"}, **dict.fromkeys(names, page)})
    columns = {
        "key": "key",
        "question": {"value": "Extract all fields as JSON."},
        "images": "pages",
        "references": "truth",
        "metadata": {"boxes": "lines"},
    }
    first, second = read(tmp_path, format="documents", columns={**columns, "metadata": {}})
    assert (first.key, pages(first, tmp_path)) == ("a", ["a-9.png", "a-10.png"])
    assert json.loads(first.references[0]) == truth
    assert (second.key, pages(second, tmp_path)) == ("b", ["b/1.png", "b/2.png"])
    (tmp_path / "b.json").unlink()
    (with_boxes,) = read(tmp_path, format="documents", columns=columns)
    assert with_boxes.metadata == {"boxes": truth["lines"]}


def test_labels_and_images_may_be_in_folders_of_their_own(tmp_path: Path) -> None:
    form = {"form": [{"text": "Date:", "box": [1, 2, 3, 4], "label": "question"}]}
    write(tmp_path, {"annotations/0001.json": form, "images/0001.png": tables.png(1)})
    columns = {"images": "pages", "metadata": {"labels": {"column": "form", "at": "label"}}}
    (sample,) = read(tmp_path, format="documents", files="annotations/*.json", images="images", columns=columns)
    assert (pages(sample, tmp_path), sample.metadata) == (["images/0001.png"], {"labels": ["question"]})


def test_images_with_boxes_are_read_in_the_form_of_coco(tmp_path: Path) -> None:
    coco = {
        "images": [{"id": 7, "file_name": "1.png", "width": 21}, {"id": 8, "file_name": "2.png"}],
        "annotations": [{"image_id": 7, "category_id": 2, "bbox": [1, 2, 3, 4]}],
        "categories": [{"id": 2, "name": "table"}],
    }
    write(tmp_path, {"labels.json": coco, "val/1.png": tables.png(1), "val/2.png": tables.png(2)})
    columns = {
        "key": "id",
        "images": "file_name",
        "references": "truth",
        "metadata": {"kinds": {"column": "annotations", "at": "category"}},
    }
    params = {"format": "coco", "files": "labels.json", "images": "val", "columns": columns}
    first, second = read(tmp_path, **params)
    assert (first.key, pages(first, tmp_path), first.metadata) == ("7", ["val/1.png"], {"kinds": ["table"]})
    assert json.loads(first.references[0]) == {"objects": [{"category": "table", "bbox": [1, 2, 3, 4]}]}
    assert json.loads(second.references[0]) == {"objects": []}
    coco["categories"] = []
    write(tmp_path, {"labels.json": coco})
    with pytest.raises(InvalidInput, match=r"images\[0\]"):
        read(tmp_path, **params)


@pytest.mark.parametrize(
    ("params", "refusal"),
    [
        ({"format": "documents", "images": "../elsewhere"}, InvalidInput),
        ({"format": "documents", "files": "../*.json"}, InvalidInput),
        ({"format": "documents", "files": "*.txt"}, NotFound),
        ({"format": "coco", "files": "a.json"}, InvalidInput),
        ({"format": "xml", "files": "a.json"}, InvalidInput),
    ],
)
def test_what_leads_out_of_the_folder_or_has_another_form_is_refused(
    tmp_path: Path, params: dict[str, Any], refusal: type[Exception]
) -> None:
    write(tmp_path, {"a.json": {"images": []}})
    with pytest.raises(refusal):
        read(tmp_path, **params)
