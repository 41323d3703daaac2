"""Examples of a prompt: drawn by seed from another split, never what is asked, and refused where there are too few."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from vlmhyperbench.data import manifest
from vlmhyperbench.data.enumerating import enumerate_samples
from vlmhyperbench.data.examples import ASKED, Drawn, draw_examples
from vlmhyperbench.domain.specs import DatasetSpec, FewShotSpec, Limits
from vlmhyperbench.errors import InvalidInput
from vlmhyperbench.storage import open_storage

ROWS = [
    {"id": f"{split}{no}", "q": f"{no} + {no}?", "a": str(2 * no), "kind": "even" if no % 2 == 0 else "odd"}
    for split, numbers in (("train", range(100, 112)), ("test", range(6)))
    for no in numbers
]
COLUMNS = {"key": "id", "question": "q", "references": "a", "metadata": ["kind", "work"]}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for row in ROWS:
        row["work"] = f"Twice {row['q'].split()[0]}."
    for split in ("train", "test"):
        lines = (json.dumps(row) for row in ROWS if row["id"].startswith(split))
        (tmp_path / f"{split}.jsonl").write_text("\n".join(lines) + "\n")
    return tmp_path


def _dataset(folder: Path, split: str, **changes: object) -> DatasetSpec:
    given = {"name": split, "version": "1", "type": "table", "path": str(folder / f"{split}.jsonl")}
    return DatasetSpec.model_validate({**given, "params": {"columns": COLUMNS}, **changes})


def _draw(
    folder: Path,
    split: str = "train",
    *,
    asked: DatasetSpec | None = None,
    field: str | None = None,
    **sampling: object,
) -> Drawn:
    asked = asked or _dataset(folder, "test")
    storage = open_storage(str(folder / "storage"))
    drawn = _dataset(folder, split, sampling={"size": 3, "seed": 1, **sampling})
    samples = enumerate_samples(asked, Limits(), storage)
    return draw_examples(FewShotSpec(dataset=drawn, answer_field=field), asked, samples, Limits(), storage)


def test_the_seed_draws_and_orders_them(folder: Path) -> None:
    first, again, other = _draw(folder), _draw(folder), _draw(folder, seed=2)
    assert first.stored.manifest_id == again.stored.manifest_id != other.stored.manifest_id
    assert len(first.keys) == 3
    assert first.keys != other.keys
    stored = folder / "storage" / manifest.manifest_key(first.stored.manifest_id)
    kept = list(manifest.samples_of(manifest.read(stored)))
    assert [(sample.index, sample.key) for sample in kept] == [*enumerate(first.keys)]


def test_strata_share_them_equally(folder: Path) -> None:
    drawn = _draw(folder, size=4, by=["kind"], allocation="equal")
    assert sorted(int(key[-1]) % 2 for key in drawn.keys) == [0, 0, 1, 1]


def test_a_question_that_is_asked_is_left_out_and_another_is_drawn(folder: Path) -> None:
    train = (folder / "train.jsonl").read_text().splitlines()
    leaked = _draw(folder).keys[0]
    copied = [json.loads(line) for line in train if json.loads(line)["id"] == leaked]
    with (folder / "test.jsonl").open("a") as lines:
        lines.write(json.dumps({**copied[0], "id": "another key"}) + "\n")
    drawn = _draw(folder)
    assert drawn.left_out == ((leaked, ASKED),)
    assert (len(drawn.keys), leaked in drawn.keys) == (3, False)
    assert drawn.as_json()["left_out"] == [{"key": leaked, "reason": ASKED}]


def test_of_the_asked_split_only_what_a_limit_leaves_can_be_drawn(folder: Path) -> None:
    limited = _dataset(folder, "test", limit=2)
    drawn = _draw(folder, "test", asked=limited, size=4)
    assert sorted(drawn.keys) == ["test2", "test3", "test4", "test5"]
    with pytest.raises(InvalidInput) as raised:
        _draw(folder, "test")
    assert (raised.value.code, ASKED in raised.value.message) == ("prompt", True)


@pytest.mark.parametrize(
    ("sampling", "field", "cure"),
    [
        ({"size": 13}, None, "fewer examples"),
        ({"by": ["kinds"]}, None, "Did you mean kind?"),
        ({}, "works", "Did you mean work?"),
    ],
)
def test_what_few_shot_cannot_have_is_named_with_its_cure(
    folder: Path, sampling: dict[str, object], field: str | None, cure: str
) -> None:
    with pytest.raises(InvalidInput) as raised:
        _draw(folder, field=field, **sampling)
    assert cure in raised.value.cure


def test_a_sample_without_an_answer_is_no_example(folder: Path) -> None:
    lines = [{**row, "a": "" if row["id"] == "train105" else row["a"]} for row in ROWS if row["id"][:2] == "tr"]
    (folder / "train.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n")
    assert "train105" not in _draw(folder, size=11).keys
    assert "train105" in _draw(folder, size=12, field="work").keys


def test_an_empty_split_is_refused(folder: Path) -> None:
    (folder / "train.jsonl").write_text("")
    with pytest.raises(InvalidInput):
        _draw(folder)
