"""Enumerating a dataset: every sample gets a row, and an error of one sample does not affect others."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image as Pillow
from pydantic import JsonValue

from tests.support.wording import Wording
from vlmhyperbench.data.enumerating import IndexResult, index, index_in_child
from vlmhyperbench.data.manifest import ManifestSample, manifest_key, read, samples_of
from vlmhyperbench.domain.specs import DatasetSpec, Limits, SourceRef
from vlmhyperbench.errors import Conflict, InvalidInput, NotFound, PluginFailure, Unavailable
from vlmhyperbench.storage import Storage, Stored, open_storage
from vlmhyperbench.storage.folder import FolderStore
from vlmhyperbench_sdk.protocols import DatasetSource
from vlmhyperbench_sdk.types import Image, Sample


class Listed:
    """A dataset whose samples the test sets."""

    samples: tuple[Sample, ...] = ()

    def __init__(self, source: DatasetSource) -> None:
        if source.params:
            raise InvalidInput("No params.")

    def __iter__(self) -> Iterator[Sample]:
        yield from self.samples


class Breaking:
    def __init__(self, source: DatasetSource) -> None:
        pass

    def __iter__(self) -> Iterator[Sample]:
        yield Sample(key="a", question="?")
        raise KeyError("boom")


def _png(width: int = 4) -> bytes:
    file = io.BytesIO()
    Pillow.new("L", (width, 2)).save(file, "PNG")
    return file.getvalue()


def _spec(**fields: object) -> DatasetSpec:
    return DatasetSpec.model_validate({"name": "d", "version": "1.0.0", "type": f"{__name__}:Listed", **fields})


def _sample(key: str, *images: Image, **metadata: JsonValue) -> Sample:
    return Sample(key=key, question=f"{key}?", images=images, references=("x",), metadata=metadata)


def _index(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *samples: Sample,
    limits: Limits | None = None,
    **fields: object,
) -> tuple[IndexResult, list[ManifestSample]]:
    monkeypatch.setattr(Listed, "samples", samples)
    storage = open_storage(str(tmp_path / "storage"))
    result = index(_spec(**fields), limits or Limits(), storage)
    return result, list(samples_of(read(tmp_path / "storage" / manifest_key(result.manifest_id))))


def test_samples_keep_their_order_and_images_are_stored_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = Image(data=_png())
    result, rows = _index(tmp_path, monkeypatch, _sample("b", page, doc_class="x"), _sample("a", page, doc_class="y"))
    assert [(row.index, row.key, row.question, row.error) for row in rows] == [
        (0, "b", "b?", None),
        (1, "a", "a?", None),
    ]
    assert rows[0].images == rows[1].images
    assert (result.samples, result.unreadable, result.group_columns) == (2, 0, ("doc_class",))
    assert (tmp_path / "storage" / rows[0].images[0].storage_key).read_bytes() == _png()


def test_a_dataset_whose_code_was_edited_after_the_submission_is_a_conflict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = SourceRef(module="tests.shared.data.test_enumerating", sha256="0" * 64)
    with pytest.raises(Conflict) as refused:
        _index(tmp_path, monkeypatch, _sample("a"), package=other)
    assert refused.value.code == "plugin_version"


def test_the_drawn_documents_are_enumerated_whole(tmp_path: Path) -> None:
    spec = _spec(type="synthetic_documents", params={"documents": 3}, required_fields=("doc_class", "question_type"))
    first = index_in_child(spec, Limits(), str(tmp_path / "one"))
    assert first.samples >= 18
    assert first.unreadable == 0
    assert first.group_columns == ("doc_class", "field", "question_type", "tier")
    assert index_in_child(spec, Limits(), str(tmp_path / "two")) == first


def test_a_sample_with_an_unreadable_image_gets_an_error_and_the_others_are_enumerated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wording: Wording
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "text.png").write_text("hello")
    (tmp_path / "secret.png").write_bytes(_png())
    images = {
        "broken": Image(path=tmp_path / "data" / "text.png"),
        "absent": Image(path=tmp_path / "data" / "absent.png"),
        "escape": Image(path=tmp_path / "data" / ".." / "secret.png"),
        "large": Image(data=_png(width=101)),
        "good": Image(data=_png()),
    }
    result, rows = _index(
        tmp_path,
        monkeypatch,
        *(_sample(key, image) for key, image in images.items()),
        limits=Limits(max_image_pixels=200),
        path=str(tmp_path / "data"),
    )
    errors = {row.key: row.error for row in rows}
    assert errors["good"] is None
    for key in ("broken", "absent", "escape", "large"):
        wording(errors[key])
    assert (result.samples, result.unreadable) == (5, 4)


def test_images_of_a_csv_are_read_from_its_folder(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.png").write_bytes(_png())
    (tmp_path / "secret.png").write_bytes(_png())
    (tmp_path / "data" / "annotation.csv").write_text(
        "image_path;question;answer\na.png;What?;x\n../secret.png;What?;x\n/etc/passwd;What?;x\n", encoding="utf-8"
    )
    storage = open_storage(str(tmp_path / "storage"))
    for path in (tmp_path / "data", tmp_path / "data" / "annotation.csv"):
        result = index(_spec(type="annotation_csv", path=str(path)), Limits(), storage)
        assert (result.samples, result.unreadable) == (3, 2)


def test_a_sample_with_unusable_content_gets_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wording: Wording
) -> None:
    _, rows = _index(
        tmp_path,
        monkeypatch,
        Sample(key="half", question="\ud800", references=("a\0b",)),
        Sample(key="long", question="x" * 1_000_001),
        Sample(key="number", question=3),
        Sample(key="nan", question="?", metadata={"score": float("nan")}),
        Sample(key="heavy", question="?", metadata={"text": "x" * 1_000_001}),
        Sample(key="many", question="?", images=(Image(data=_png()),) * 257),
    )
    assert [row.question[:2] for row in rows] == ["?", "xx", "", "?", "?", "?"]
    assert rows[0].references == ("a\N{REPLACEMENT CHARACTER}b",)
    for row in rows:
        wording(row.error)


def test_filters_and_the_limit_select_the_first_matching_samples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    samples = [_sample(f"{no}", doc_class="ab"[no % 2], question_type="qr"[no // 2 % 2]) for no in range(8)]
    _, rows = _index(tmp_path, monkeypatch, *samples, doc_classes=["a"])
    assert [row.key for row in rows] == ["0", "2", "4", "6"]
    _, rows = _index(tmp_path, monkeypatch, *samples, doc_classes=["a"], question_types=["r"], limit=1)
    assert [(row.index, row.key) for row in rows] == [(0, "2")]


def test_a_limit_of_a_draw_is_a_smaller_draw_of_every_stratum(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    samples = [_sample(f"{no}", kind="ab"[no // 8]) for no in range(16)]
    sampling = {"size": 12, "seed": 3, "by": ["kind"], "allocation": "equal"}
    _, drawn = _index(tmp_path, monkeypatch, *samples, sampling=sampling)
    _, limited = _index(tmp_path, monkeypatch, *samples, sampling=sampling, limit=4)
    assert [row.metadata["kind"] for row in limited] == ["a", "a", "b", "b"]
    assert {row.key for row in limited} <= {row.key for row in drawn}
    _, all_drawn = _index(tmp_path, monkeypatch, *samples, sampling=sampling, limit=14)
    assert [row.key for row in all_drawn] == [row.key for row in drawn]


def test_filters_without_a_matching_sample_name_the_existing_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InvalidInput, match=r"doc_class photo; question_type .absent."):
        _index(tmp_path, monkeypatch, _sample("a", doc_class="photo"), doc_classes=["photos"])


def test_a_dataset_without_samples_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wording: Wording
) -> None:
    with pytest.raises(InvalidInput, match="'d'") as refused:
        _index(tmp_path, monkeypatch)
    wording(refused.value)


def test_missing_required_metadata_is_counted_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    samples = [_sample("a", doc_class="x"), _sample("b"), _sample("c", doc_class=None)]
    with pytest.raises(InvalidInput, match=r"doc_class \(2 of 3\), page \(3 of 3\)"):
        _index(tmp_path, monkeypatch, *samples, required_fields=["doc_class", "page"])


@pytest.mark.parametrize(
    "samples",
    [
        (_sample("a"), _sample("a")),
        (_sample(""),),
        (_sample("x" * 501),),
        (_sample("a\0"),),
        (Sample(key=1, question="?"),),
        ("text",),
    ],
    ids=["twice", "empty", "long", "nul", "number", "no sample"],
)
def test_a_dataset_that_breaks_its_contract_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, samples: tuple[Sample, ...], wording: Wording
) -> None:
    with pytest.raises(PluginFailure) as refused:
        _index(tmp_path, monkeypatch, *samples)
    wording(refused.value)


def test_an_error_of_a_plugin_is_a_plugin_failure(tmp_path: Path) -> None:
    storage = open_storage(str(tmp_path))
    with pytest.raises(PluginFailure, match=r"'d' .*KeyError.*boom"):
        index(_spec(type=f"{__name__}:Breaking"), Limits(), storage)
    with pytest.raises(InvalidInput, match="No params"):
        index(_spec(params={"x": 1}), Limits(), storage)
    with pytest.raises(NotFound, match="synthetic_documents"):
        index(_spec(type="synthetic_document"), Limits(), storage)


def test_a_full_disk_keeps_its_error_code(tmp_path: Path) -> None:
    class Full(Storage):
        def put(self, key: str, data: bytes | Path, *, media_type: str = "") -> Stored:
            raise Unavailable("There is no space left.", code="storage_full")

    with pytest.raises(Unavailable) as raised:
        index(_spec(type="synthetic_documents", params={"documents": 1}), Limits(), Full(FolderStore(tmp_path)))
    assert raised.value.code == "storage_full"


def test_a_pair_of_filters_that_matches_nothing_names_the_nearest_pair(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    samples = [
        _sample("a", doc_class="receipt", question_type="total"),
        _sample("b", doc_class="id", question_type="name"),
    ]
    for classes, types, cure in (
        (["receit"], [], "doc_class: Did you mean receipt?"),
        (["receipt"], ["name"], "Did you mean receipt with total"),
    ):
        with pytest.raises(InvalidInput) as caught:
            _index(tmp_path, monkeypatch, *samples, doc_classes=classes, question_types=types)
        assert cure in caught.value.cure


@pytest.mark.parametrize("name", ["a\0b", "a\nb", "\x1b[2J"])
def test_a_name_of_metadata_with_a_control_character_is_an_error_of_the_sample(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    _, (row,) = _index(tmp_path, monkeypatch, Sample(key="a", question="?", metadata={name: 1}))
    assert row.metadata == {}
    assert "control character" in str(row.error)
