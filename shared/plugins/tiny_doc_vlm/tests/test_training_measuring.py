"""Tables count what was right; the sheet shows both answers; llama.cpp's server is started and stopped."""

from __future__ import annotations

import dataclasses
import io
import re
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest
from PIL import Image
from training import evaluate, sheet
from training.answering import answer_with_server
from training.evaluate import tables
from training.held_out import SEED, Item, draw_items
from training.options import run
from training.serving import EngineFailedError, serve

from vlmhyperbench_sdk.errors import Unavailable

ITEM = Item(suite="clean", group="date", question="?", image=b"", expected="1")
ITEMS = [ITEM, ITEM, dataclasses.replace(ITEM, group="due"), dataclasses.replace(ITEM, suite="noisy")]


def test_the_tables_count_by_suite_and_by_what_was_asked_and_put_versions_side_by_side() -> None:
    assert tables(ITEMS, {"0.1": ["1", "2", "1", "0"], "0.2": ["1", "1", "1", "1"]}).splitlines() == [
        "| suite | questions | 0.1 / 0.2 |",
        "|---|---|---|",
        "| clean | 3 | 0.667 / 1.000 |",
        "| noisy | 1 | 0.000 / 1.000 |",
        "",
        "| asked for | questions | clean | noisy |",
        "|---|---|---|---|",
        "| date | 1 to 2 | 0.500 / 1.000 | 0.000 / 1.000 |",
        "| due | 1 | 1.000 / 1.000 |  |",
    ]


def test_a_server_that_ends_is_refused_with_its_exit_status_and_its_output(tmp_path: Path) -> None:
    for part in ("", "-mmproj"):
        (tmp_path / f"tiny-doc-vlm{part}-f16.gguf").write_bytes(b"no weights")
    with pytest.raises(EngineFailedError, match=r"(?s)not ready \(exit \d+\).*gguf"), serve(tmp_path):
        pass


def test_a_version_is_evaluated_by_llama_cpp_s_own_server(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["evaluate", "0.1", "--documents", "1", "--suites", "clean"])
    assert run(evaluate.main) == 0
    row = capsys.readouterr().out.splitlines()[2].split(" | ")
    assert (row[0], row[1]) == ("| clean", "7")
    assert float(row[2].rstrip(" |")) >= 0.5


def test_the_sheet_shows_one_question_of_each_page_and_every_page_once() -> None:
    items = sheet.choose(12)
    assert sheet.choose(24)[:12] == items
    assert len({item.image for item in items}) == 12
    assert [item.suite for item in items[:2]] == ["clean", "noisy"]
    assert len({item.suite for item in items}) == 10
    drawn = sheet.draw_sheet(items, [item.expected for item in items])
    assert drawn.width == 1600
    wrong = sheet.draw_sheet(items[:1], ["no"])
    right = sheet.draw_sheet(items[:1], [items[0].expected])
    assert (190, 0, 0) in {colour for _, colour in wrong.getcolors(1 << 24)}
    assert (190, 0, 0) not in {colour for _, colour in right.getcolors(1 << 24)}
    page = Image.open(io.BytesIO(items[0].image)).convert("RGB").resize((384, 192), Image.Resampling.NEAREST)
    assert right.crop((8, 8, 392, 200)).tobytes() == page.tobytes()


def test_a_cell_of_the_sheet_has_room_for_a_large_page_and_much_text() -> None:
    page = next(iter(draw_items("dense", 1))).image
    talkative = dataclasses.replace(ITEM, image=page, expected="word\n" * 20)
    drawn = sheet.draw_sheet([talkative], ["other\n" * 20])
    # The verdict is the last line, in the colour of what is wrong.
    assert sheet.WRONG in {
        colour for _, colour in drawn.crop((0, drawn.height - 30, 400, drawn.height)).getcolors(1 << 24)
    }


def test_a_file_that_cannot_be_written_is_refused_before_anything_is_asked(capsys: pytest.CaptureFixture[str]) -> None:
    for command, arguments in (
        (evaluate.main, ["http://127.0.0.1:9", "--answers", "/nowhere/a.jsonl"]),
        (sheet.main, ["http://127.0.0.1:9", "/nowhere/a.png"]),
    ):
        with pytest.raises(SystemExit):
            command(arguments)
        assert "/nowhere" in capsys.readouterr().err


def test_a_suite_that_is_named_twice_is_asked_once() -> None:
    once = list(draw_items("clean", 1))
    assert evaluate.questions(["clean", "clean"], 1, seed=SEED) == once


@pytest.mark.parametrize("model", ["/nowhere", "0.9", "ftp://127.0.0.1"])
def test_a_model_that_there_is_not_is_refused_before_anything_is_asked(
    model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for command, arguments in ((evaluate.main, ["0.1", model]), (sheet.main, [model, "sheet.png"])):
        with pytest.raises(SystemExit):
            command(arguments)
        assert f"'{model}'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [(400, b"no such model", "refuses a request: no such model"), (200, b"<html>", "not as OpenAI's protocol has it")],
)
def test_an_answer_that_is_none_is_named(status: int, body: bytes, said: str) -> None:
    class Refusing(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

    with HTTPServer(("127.0.0.1", 0), Refusing) as server:
        Thread(target=server.handle_request, daemon=True).start()
        with pytest.raises(Unavailable, match=re.escape(said)):
            answer_with_server(f"http://127.0.0.1:{server.server_port}", [ITEM], model="m", parallel=1)


def test_a_server_that_is_not_there_is_one_sentence_and_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["evaluate", "http://127.0.0.1:9", "--documents", "1", "--suites", "clean"])
    assert run(evaluate.main) == 1
    written = capsys.readouterr().err
    assert "http://127.0.0.1:9" in written
    assert "Traceback" not in written
