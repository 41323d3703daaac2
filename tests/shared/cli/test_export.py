"""`export RUN` writes a finished run, or fails with a reason and leaves no files."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import parse_qs, urlsplit
from uuid import UUID

import polars
import pytest

from tests.shared.exchange.exported_run import RUN, exported, result, results, run
from tests.shared.exchange.reading import answers
from tests.shared.reports.builders import thumbnail
from tests.support.http_servers import QuietServer
from tests.support.processes import PATIENCE_S
from tests.support.wording import Wording
from vlmhyperbench.cli.main import main
from vlmhyperbench.exchange.pictures import data_url
from vlmhyperbench.wire.results import Result
from vlmhyperbench.wire.runs import RunDetail
from vlmhyperbench_sdk.types import JsonValue

EXPERIMENT = UUID(int=7)
FORMATS = ("parquet", "jsonl", "lm-eval", "inspect", "hf", "csv")
PAGE_ROWS = 3


class Api:
    """A server with one run that answers as the API does, but always with short pages."""

    def __init__(self) -> None:
        self.run: RunDetail = run()
        self.results: Sequence[Result] = results()
        self.images: dict[str, bytes] = {}
        self.breaks_at: int | None = None
        """Pages from this row on are refused."""
        self.asked = threading.Event()
        self.stands_still = threading.Event()

    def answer(self, path: str) -> tuple[int, JsonValue | bytes]:
        """Answer a request with a status and a body."""
        parts = urlsplit(path)
        match parts.path.removeprefix("/api/v1/").split("/"):
            case ["ids", wanted] if wanted == str(self.run.id):
                return 200, {"kind": "run", "id": wanted, "name": self.run.name}
            case ["ids", wanted] if wanted == str(EXPERIMENT):
                return 200, {"kind": "experiment", "id": wanted, "name": "two models"}
            case ["runs", _, "images", wanted] if wanted in self.images:
                return 200, self.images[wanted]
            case ["runs", wanted] if wanted == str(self.run.id):
                return 200, self.run.model_dump(mode="json")
            case ["experiments", wanted] if wanted == str(EXPERIMENT):
                return 200, self._experiment()
            case ["results"]:
                return self._page(int(parse_qs(parts.query).get("cursor", ["0"])[0]))
        return 404, {"title": "not found", "status": 404, "code": "not_found", "detail": "There is none."}

    def _page(self, first: int) -> tuple[int, JsonValue]:
        if self.breaks_at is not None and first >= self.breaks_at:
            self.asked.set()
            self.stands_still.wait()
            return 503, {"title": "down", "status": 503, "code": "unavailable", "detail": "It is down."}
        page = self.results[first : first + PAGE_ROWS]
        following = first + PAGE_ROWS
        more = str(following) if following < len(self.results) else None
        return 200, {"items": [result.model_dump(mode="json") for result in page], "next": more}

    def _experiment(self) -> JsonValue:
        run_fields = self.run.model_dump(mode="json")
        fields = ("event_seq", "created_by", "created_at", "finished_at", "is_cancelling")
        own = {"id": str(EXPERIMENT), "name": "two models", "state": "DONE", "run_states": {}, "runs": [run_fields]}
        return {**own, **{name: run_fields[name] for name in fields}}


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[Api]:
    made = Api()
    made.stands_still.set()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = made.answer(self.path)
            content = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *args: object) -> None:
            """Print nothing."""

    with QuietServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        monkeypatch.setenv("VLMHB_API_URL", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setenv("VLMHB_API_KEY", "key")
        yield made
        made.stands_still.set()
        server.shutdown()
        thread.join()


def _files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize(
    ("format_", "files"),
    [
        ("parquet", ["out"]),
        ("jsonl", ["out"]),
        ("csv", ["out"]),
        ("hf", ["out/.eval_results/document-qa.yaml", "out/model-index.yaml"]),
        (
            "lm-eval",
            [
                "out/tiny/results_2026-01-02T03-05-05.250000.json",
                "out/tiny/samples_document-qa_2026-01-02T03-05-05.250000.jsonl",
            ],
        ),
    ],
)
def test_every_format_is_written(api: Api, tmp_path: Path, format_: str, files: list[str]) -> None:
    assert main(["export", str(RUN), "--format", format_, "--out", str(tmp_path / "out")]) == 0
    assert _files(tmp_path) == files


def test_the_envelope_names_files_answers_and_what_is_missing(
    api: Api, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "log.eval"
    assert main(["export", str(RUN), "--format", "inspect", "--out", str(out), "--json"]) == 0
    envelope = json.loads(capsys.readouterr().out)
    assert envelope["kind"] == "export"
    assert envelope["data"] == {"run": str(RUN), "format": "inspect", "files": [str(out)], "answers": 4}
    assert envelope["warnings"][0] == f"anls: {exported().headline[0].gap}."


def test_images_are_in_the_log_of_inspect_and_missing_ones_are_counted(
    api: Api, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = thumbnail().data
    there, gone = hashlib.sha256(data).hexdigest(), "0" * 64
    api.images = {there: data}
    api.results = [result(0, images=[there]), result(1, images=[there]), result(2, images=[there, gone])]
    out = tmp_path / "log.eval"
    assert main(["export", str(RUN), "--format", "inspect", "--out", str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["warnings"][-1].startswith("2 images")
    samples = answers(out)
    assert [sample.image_urls for sample in samples] == [
        (data_url(data),),
        (f"same:{hashlib.sha256(data_url(data).encode()).hexdigest()}",),
        (),
    ]
    assert all(sample.question for sample in samples)


def test_all_pages_are_in_the_file_in_their_order(api: Api, tmp_path: Path) -> None:
    api.results = [result(i) for i in range(10)]
    out = tmp_path / "run.parquet"
    assert main(["export", str(RUN), "--format", "parquet", "--out", str(out)]) == 0
    assert polars.read_parquet(out)["ordinal"].to_list() == list(range(10))


def test_in_an_existing_folder_the_file_is_named_after_the_run(
    api: Api, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", str(RUN), "--format", "csv", "--out", str(tmp_path)]) == 0
    assert _files(tmp_path) == ["tiny-on-documents-00000000.csv"]
    assert capsys.readouterr().out == f"export: {tmp_path}/tiny-on-documents-00000000.csv\n"


def test_without_out_the_file_is_written_into_the_current_folder(
    api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["export", str(RUN), "--format", "jsonl"]) == 0
    assert main(["export", str(RUN), "--format", "hf"]) == 0
    assert {path.split("/")[0] for path in _files(tmp_path)} == {"tiny-on-documents-00000000.jsonl", "export-00000000"}


def test_the_scores_for_the_hub_name_its_dataset(api: Api, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hub = ["--hub-dataset", "lmms-lab/DocVQA", "--hub-task", "val", "--source-url", "https://example.org"]
    assert main(["export", str(RUN), "--format", "hf", "--out", str(tmp_path), *hub]) == 0
    assert "id: lmms-lab/DocVQA" in (tmp_path / ".eval_results" / "document-qa.yaml").read_text()
    assert "--hub-dataset" not in capsys.readouterr().err
    assert main(["export", str(RUN), "--format", "hf", "--out", str(tmp_path)]) == 0
    assert "--hub-dataset" in capsys.readouterr().err


def test_a_flag_of_another_format_is_refused(api: Api, capsys: pytest.CaptureFixture[str], wording: Wording) -> None:
    assert main(["export", str(RUN), "--format", "csv", "--hub-task", "val"]) == 2
    wording(capsys.readouterr().err)


def test_the_error_for_an_unknown_format_lists_all_formats(api: Api, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", str(RUN), "--format", "xml"]) == 2
    error = capsys.readouterr().err
    assert all(name in error for name in FORMATS)


@pytest.mark.parametrize("format_", FORMATS)
def test_a_run_that_has_not_ended_is_refused(
    api: Api, tmp_path: Path, format_: str, capsys: pytest.CaptureFixture[str]
) -> None:
    api.run = run(state=type(api.run.state)("RUNNING"))
    assert main(["export", str(RUN), "--format", format_, "--out", str(tmp_path / "log.eval")]) == 3
    assert f"vlmhyperbench watch {RUN}" in capsys.readouterr().err
    assert _files(tmp_path) == []


@pytest.mark.parametrize("format_", [name for name in FORMATS if name != "hf"])
def test_a_run_without_answers_is_refused(
    api: Api, tmp_path: Path, format_: str, capsys: pytest.CaptureFixture[str]
) -> None:
    api.results = []
    api.run = run(state=type(api.run.state)("FAILED"), reason="no model", done=0, headline=None)
    assert main(["export", str(RUN), "--format", format_, "--out", str(tmp_path / "log.eval")]) == 3
    assert "no model" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_run_without_a_report_has_no_scores_for_the_hub(
    api: Api, tmp_path: Path, capsys: pytest.CaptureFixture[str], wording: Wording
) -> None:
    api.run = run(headline=None)
    assert main(["export", str(RUN), "--format", "hf", "--out", str(tmp_path / "hub")]) == 3
    assert capsys.readouterr().err.startswith("error: ")
    assert list(tmp_path.iterdir()) == []
    assert main(["export", str(RUN), "--format", "lm-eval", "--out", str(tmp_path / "lm")]) == 0
    wording(capsys.readouterr().err)


def test_an_experiment_is_refused_with_the_ids_of_its_runs(
    api: Api, capsys: pytest.CaptureFixture[str], wording: Wording
) -> None:
    assert main(["export", str(EXPERIMENT), "--format", "csv"]) == 2
    wording(capsys.readouterr().err, RUN=RUN)


@pytest.mark.parametrize("wanted", ["none", str(UUID(int=99))])
def test_an_unknown_id_is_refused(api: Api, wanted: str) -> None:
    assert main(["export", wanted, "--format", "csv"]) == 2


def test_a_file_that_cannot_be_written_is_an_error_of_setup(
    api: Api, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("in the way")
    assert main(["export", str(RUN), "--format", "csv", "--out", str(tmp_path / "file" / "run.csv")]) == 3
    assert str(tmp_path / "file") in capsys.readouterr().err


@pytest.mark.parametrize("format_", [name for name in FORMATS if name != "hf"])
def test_an_api_that_fails_half_way_leaves_the_older_export(api: Api, tmp_path: Path, format_: str) -> None:
    out = tmp_path / "log.eval"
    assert main(["export", str(RUN), "--format", format_, "--out", str(out)]) == 0
    before = {name: (tmp_path / name).read_bytes() for name in _files(tmp_path)}
    api.results, api.breaks_at = [result(i, "new") for i in range(6)], PAGE_ROWS
    assert main(["export", str(RUN), "--format", format_, "--out", str(out)]) == 3
    assert {name: (tmp_path / name).read_bytes() for name in _files(tmp_path)} == before


@pytest.mark.parametrize("format_", FORMATS)
def test_a_device_is_not_replaced_by_an_export(api: Api, tmp_path: Path, format_: str) -> None:
    out = tmp_path / "log.eval"
    out.symlink_to("/dev/full")
    expected = 3 if format_ in {"hf", "lm-eval"} else 2  # a folder cannot lie there
    assert main(["export", str(RUN), "--format", format_, "--out", str(out)]) == expected
    assert (list(tmp_path.iterdir()), Path("/dev/full").is_char_device()) == ([out], True)


@pytest.mark.parametrize("format_", ["parquet", "jsonl", "csv", "inspect"])
def test_a_dash_writes_the_file_to_stdout_and_nothing_else(
    api: Api, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch, format_: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["export", str(RUN), "--format", format_, "--out", "-"]) == 0
    written = capfdbinary.readouterr().out
    assert _files(tmp_path) == []
    assert main(["export", str(RUN), "--format", format_, "--out", "log.eval"]) == 0
    assert written == (tmp_path / "log.eval").read_bytes()


@pytest.mark.parametrize("given", [["--format", "hf"], ["--format", "csv", "--json"]], ids=["folder", "JSON"])
def test_a_folder_or_json_beside_a_file_on_stdout_is_refused(
    api: Api, given: list[str], capsys: pytest.CaptureFixture[str], wording: Wording
) -> None:
    assert main(["export", str(RUN), *given, "--out", "-"]) == 2
    wording(capsys.readouterr().err)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_ctrl_c_leaves_no_half_written_file(api: Api, tmp_path: Path, number: signal.Signals, code: int) -> None:
    api.breaks_at = PAGE_ROWS
    api.stands_still.clear()
    out = tmp_path / "deep" / "log.eval"
    command = [sys.executable, "-m", "vlmhyperbench.cli.main", "export", str(RUN), "--format", "inspect"]
    with subprocess.Popen([*command, "--out", str(out)], env=dict(os.environ)) as running:
        assert api.asked.wait(timeout=PATIENCE_S)
        running.send_signal(number)
        assert running.wait(timeout=PATIENCE_S) == code
    assert list(tmp_path.iterdir()) == []
