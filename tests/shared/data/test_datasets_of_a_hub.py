"""Datasets of the hub: only the files of their split are fetched, at a revision, verified; and what failures say."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

import polars as pl
import pytest

from tests.support import benchmarks, tables
from tests.support.hub import LoopbackHub, serve_hub
from tests.support.wording import Wording
from vlmhyperbench.data.datasets import on_this_machine
from vlmhyperbench.data.repositories import Arrival
from vlmhyperbench.data.samples import Selection
from vlmhyperbench.domain.specs import DatasetSpec
from vlmhyperbench.errors import Conflict, Denied, InvalidInput, NotFound, Unavailable, VlmHyperBenchError
from vlmhyperbench.registry.loading import load_catalogue
from vlmhyperbench.registry.resolution import resolve_run
from vlmhyperbench.registry.schemas import RunEntry
from vlmhyperbench.settings import Settings

REPO = "datasets/lab/pages"


def parquet(count: int) -> bytes:
    file = io.BytesIO()
    pl.DataFrame([tables.as_hub_stores(row) for row in tables.rows(count)]).write_parquet(file)
    return file.getvalue()


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopbackHub]:
    with serve_hub() as served:
        monkeypatch.setenv("HF_ENDPOINT", served.url)
        served.hold(
            REPO,
            {
                "README.md": b"# Pages",
                "data/test-00000-of-00001.parquet": parquet(12),
                "data/train-00000-of-00001.parquet": parquet(2),
                "raw/pages.zip": b"x" * 9000,
            },
        )
        yield served


@contextmanager
def local(
    tmp_path: Path,
    path: str = "hf://datasets/lab/pages",
    *,
    params: Mapping[str, object] = MappingProxyType({}),
    settings: Settings | None = None,
    arrival: Arrival | None = None,
    **fields: object,
) -> Iterator[DatasetSpec]:
    given = {"name": "pages", "version": "1.0.0", "type": "table", "path": path, "split": "test", **fields}
    spec = DatasetSpec.model_validate({**given, "params": {"columns": tables.COLUMNS, **params}})
    with on_this_machine(spec, settings or Settings(home=tmp_path), arrival or Arrival()) as there:
        yield there


def keys(spec: DatasetSpec) -> list[str]:
    return [sample.key for sample in Selection(spec)]


def test_its_tables_are_fetched_at_a_revision_and_read_like_any_other(hub: LoopbackHub, tmp_path: Path) -> None:
    with local(tmp_path, revision="v1.0") as spec:
        read = tables.contents(list(Selection(spec)))
    assert read == tables.contents(tables.samples(tables.write_jsonl(tmp_path / "jsonl")))
    assert hub.fetched() == {"README.md", "data/test-00000-of-00001.parquet"}
    count = len(hub.requests)
    with local(tmp_path, path="hf://datasets/lab/pages/data") as spec:
        assert len(list(Selection(spec))) == 12
    assert len(hub.requests) == count + 1  # the listing
    with local(tmp_path, split="train") as spec:
        assert keys(spec) == ["q0", "q1"]
    with local(tmp_path) as spec:
        assert len(keys(spec)) == 12


@pytest.mark.parametrize(
    ("path", "fields", "refusal", "code"),
    [
        ("hf://datasets/lab/nothing", {}, Denied, "hub_denied"),
        ("hf://datasets/lab/pages", {"revision": "v9"}, NotFound, "hub_no_revision"),
        ("hf://datasets/lab/pages/raw", {}, NotFound, "hub_no_file"),
        ("hf://datasets/lab/pages", {"split": None}, InvalidInput, "invalid_input"),
        ("hf://datasets/../secrets", {}, InvalidInput, "invalid_input"),
    ],
)
def test_what_does_not_exist_is_named(
    hub: LoopbackHub,
    tmp_path: Path,
    path: str,
    fields: dict[str, object],
    refusal: type[VlmHyperBenchError],
    code: str,
) -> None:
    with pytest.raises(refusal) as refused, local(tmp_path, path=path, **fields):
        pass
    assert refused.value.code == code


def test_a_hub_that_refuses_and_one_that_fails_are_different(hub: LoopbackHub, tmp_path: Path) -> None:
    hub.hold("datasets/lab/gated", {"test.parquet": parquet(1)}, is_gated=True)
    with pytest.raises(Denied) as refused, local(tmp_path, path="hf://datasets/lab/gated"):
        pass
    assert refused.value.code == "hub_denied"
    hub.status = 503
    with pytest.raises(Unavailable), local(tmp_path):
        pass


def test_half_a_download_continues_and_another_file_than_the_listed_one_is_refused(
    hub: LoopbackHub, tmp_path: Path, wording: Wording
) -> None:
    whole = parquet(400)
    hub.hold(REPO, {"test.parquet": whole})
    hub.cut_after["test.parquet"] = 5000
    with local(tmp_path) as spec:
        assert len(list(Selection(spec))) == 400
    hub.hold("datasets/lab/other", {"test.parquet": whole})
    hub.replaced["test.parquet"] = whole[:-1] + b"x"
    with pytest.raises(Conflict) as refused, local(tmp_path, path="hf://datasets/lab/other"):
        pass
    assert refused.value.code == "wrong_hash"
    hub.replaced["test.parquet"] = whole + b"x"
    with pytest.raises(Unavailable) as longer, local(tmp_path, path="hf://datasets/lab/other"):
        pass
    wording(longer.value)


CARD = {
    "configs": [
        {"config_name": "small", "data_files": [{"split": "test", "path": "rows/a*.parquet"}]},
        {"config_name": "large", "data_files": {"test": ["rows/b.parquet"], "dev": "rows/**/c.parquet"}},
        {"config_name": "mixed", "data_dir": "more"},
    ]
}
FILES = {
    "README.md": f"---\n{json.dumps(CARD)}\n---\n# Pages\n".encode(),
    **{f"rows/{name}.parquet": parquet(count) for name, count in {"a1": 1, "a2": 2, "b": 3, "deep/c": 4}.items()},
    **{f"more/{name}.parquet": parquet(count) for name, count in {"train": 5, "test": 6}.items()},
}


@pytest.mark.parametrize(
    ("config", "split", "counts", "fetched"),
    [
        ("small", "test", 1 + 2, {"rows/a1.parquet", "rows/a2.parquet"}),
        ("large", "test", 3, {"rows/b.parquet"}),
        ("large", "dev", 4, {"rows/deep/c.parquet"}),
        ("mixed", "test", 6, {"more/test.parquet"}),
    ],
)
def test_the_card_says_which_files_are_fetched(
    hub: LoopbackHub, tmp_path: Path, config: str, split: str, counts: int, fetched: set[str]
) -> None:
    hub.hold(REPO, FILES)
    columns = {name: column for name, column in tables.COLUMNS.items() if name != "key"}
    with local(tmp_path, split=split, params={"config": config, "columns": columns}) as spec:
        assert len(keys(spec)) == counts
    assert hub.fetched() == {"README.md", *fetched}


@pytest.mark.parametrize(
    ("files", "params", "split", "fetched"),
    [
        ({"en/test.parquet": 1, "en/train.parquet": 2, "de/test.parquet": 3}, {"config": "en"}, "test", "en/test"),
        ({"en/test/0000.parquet": 1, "en/partial-train/0000.parquet": 2}, {"config": "en"}, "test", "en/test/0000"),
        ({"data/mini-00000-of-00001-0a.parquet": 1, "data/test.parquet": 2}, {}, "mini", "data/mini-00000-of-00001-0a"),
        ({"a.parquet": 1, "old/b.parquet": 2}, {"files": "a.*"}, None, "a"),
    ],
)  # fmt: skip
def test_names_say_which_files_are_fetched_where_the_card_does_not(
    hub: LoopbackHub,
    tmp_path: Path,
    files: Mapping[str, int],
    params: Mapping[str, object],
    split: str | None,
    fetched: str,
) -> None:
    hub.hold(REPO, {name: parquet(count) for name, count in files.items()})
    with local(tmp_path, split=split, params=params) as spec:
        assert keys(spec) == ["q0"]
    assert hub.fetched() == {f"{fetched}.parquet"}


def test_a_split_or_a_config_that_does_not_exist_is_named_before_a_table_is_fetched(
    hub: LoopbackHub, tmp_path: Path, wording: Wording
) -> None:
    with pytest.raises(NotFound) as refused, local(tmp_path, split="tset"):
        pass
    wording(refused.value)
    hub.hold(REPO, FILES)
    for params, split in (({"config": "smal"}, "test"), ({"config": "large"}, "devv")):
        with pytest.raises(NotFound) as refused, local(tmp_path, split=split, params=params):
            pass
        wording(refused.value)
    assert hub.fetched() == {"README.md"}


def test_a_folder_that_datasets_saved_is_fetched_by_its_state(hub: LoopbackHub, tmp_path: Path) -> None:
    shard = io.BytesIO()
    pl.DataFrame([tables.as_hub_stores(row) for row in tables.rows(2)]).write_ipc_stream(shard)
    state = json.dumps({"_data_files": [{"filename": "data-00000-of-00001.arrow"}], "_split": "test"})
    files = {"dataset_dict.json": b'{"splits": ["train", "test"]}'}
    for split in ("train", "test"):
        files |= {f"{split}/state.json": state.encode(), f"{split}/data-00000-of-00001.arrow": shard.getvalue()}
    hub.hold(REPO, files)
    with local(tmp_path) as spec:
        assert keys(spec) == ["q0", "q1"]
    assert "train/data-00000-of-00001.arrow" not in hub.fetched()
    files["test/state.json"] = state.replace("data-0", "../../data-0").encode()
    hub.hold(REPO, files)
    with pytest.raises(NotFound), local(tmp_path):
        pass


def test_images_beside_a_table_and_documents_are_fetched_but_no_archives(hub: LoopbackHub, tmp_path: Path) -> None:
    line = json.dumps({**tables.rows(1)[0], "image": "pages/0.png"}).encode()
    hub.hold(REPO, {"test.jsonl": line, "train.jsonl": line, "pages/0.png": tables.png(0), "all.zip": b"x"})
    with local(tmp_path) as spec:
        assert [sample.images[0].read() for sample in Selection(spec)] == [tables.png(0)]
    assert hub.fetched() == {"test.jsonl", "pages/0.png"}
    hub.hold(REPO, {"a.json": b'{"total": "1"}', "a.png": tables.png(1), "all.zip": b"x"})
    columns = {"images": "pages", "references": "truth"}
    with local(tmp_path, split=None, params={"format": "documents", "columns": columns}) as spec:
        assert [sample.images[0].read() for sample in Selection(spec)] == [tables.png(1)]


class Heard(Arrival):
    """What was said."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []

    def announce(self, text: str) -> None:
        self.said.append(text)


def test_the_size_is_said_before_and_what_finds_no_room_evicts_nothing(
    hub: LoopbackHub, tmp_path: Path, wording: Wording
) -> None:
    hub.hold("datasets/lab/large", {"test.parquet": parquet(1), "train.parquet": b"x" * 3_000_000})
    bounded = Settings(home=tmp_path, models_max_bytes=2_000_000)
    heard = Heard()
    with local(tmp_path, settings=bounded) as spec:
        kept = Path(spec.path or "") / "data/test-00000-of-00001.parquet"
    large = "hf://datasets/lab/large"
    with pytest.raises(Conflict) as refused, local(tmp_path, large, split="train", settings=bounded, arrival=heard):
        pass
    wording(refused.value)
    assert kept.is_file()
    assert not any("train.parquet" in path for _, path, _ in hub.requests)
    with local(tmp_path, large, settings=bounded, arrival=heard) as spec:
        assert keys(spec) == ["q0"]
    with local(tmp_path, large, settings=bounded, arrival=heard):
        pass
    assert [text.split(": ")[1].split(",")[0] for text in heard.said] == ["1 of its 2 files", "1 of its 2 files"]


def test_what_was_fetched_is_read_while_the_hub_does_not_answer_but_nothing_else(
    hub: LoopbackHub, tmp_path: Path
) -> None:
    card = {"configs": [{"data_files": [{"split": "test", "path": "a.parquet"}, {"split": "all", "path": "*"}]}]}
    head = f"---\n{json.dumps(card)}\n---\n".encode()
    held = hub.hold(REPO, {"README.md": head, "a.parquet": parquet(2), "b.parquet": parquet(3)})
    with local(tmp_path) as spec:
        assert len(keys(spec)) == 2
    for revision in (None, held.commit):
        for settings in (Settings(home=tmp_path), Settings(home=tmp_path, offline=True)):
            hub.status = 503 if not settings.offline else None
            with local(tmp_path, revision=revision, settings=settings) as spec:
                assert len(keys(spec)) == 2
            with pytest.raises(Unavailable), local(tmp_path, split="all", revision=revision, settings=settings):
                pass
    with pytest.raises(Unavailable), local(tmp_path, revision="v1.0", settings=Settings(home=tmp_path, offline=True)):
        pass


CATALOGUE = load_catalogue(Path(__file__).parents[3] / "registries")


@pytest.mark.parametrize("name", benchmarks.names())
def test_of_a_public_benchmark_only_its_split_is_fetched(hub: LoopbackHub, tmp_path: Path, name: str) -> None:
    entry = {"target": {"model": "simulated-instant"}, "task": name}
    spec = resolve_run(CATALOGUE, RunEntry.model_validate(entry)).dataset.model_copy(update={"revision": None})
    config, known = spec.params.get("config"), benchmarks.fixture(name)
    split = spec.split or "test"
    folder = benchmarks.write_hub(known, tmp_path / "hub", split=split, config=str(config) if config else None)
    files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    others = [] if known.file else [f"{config or 'data'}/other-00000-of-00001.parquet"]
    repo = (spec.path or "").removeprefix("hf://")
    hub.hold(repo, {**files, **dict.fromkeys([*others, "old/rows.zip"], b"another split")})
    with on_this_machine(spec, Settings(home=tmp_path / "home"), Arrival()) as there:
        assert len(keys(there)) == len(known.rows)
    assert hub.fetched() == set(files)
