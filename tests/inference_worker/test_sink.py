"""A segment becomes a chunk and rows: whose failure it was, the times, and nothing of what was never answered."""

import hashlib
from uuid import uuid4

import polars
import pytest

from tests.inference_worker.test_watch import watched_memory
from vlmhyperbench.domain.states import FactStatus
from vlmhyperbench.facts.schema import CHUNK_COLUMNS, polars_schema
from vlmhyperbench.storage import open_storage
from vlmhyperbench_inference_worker.requests import ImageRef, PlannedRequest
from vlmhyperbench_inference_worker.sink import Sink
from vlmhyperbench_sdk.load import RECORD_COLUMNS
from vlmhyperbench_sdk.types import Prompt

MS = 1_000_000


def planned(ordinal):
    return PlannedRequest(
        phase=1,
        ordinal=ordinal,
        sample=ordinal,
        repeat=0,
        prompt=Prompt(user="What is the total?"),
        images=(ImageRef(sha256="a" * 64, media_type="image/png"),),
        request={},
        request_sha256=f"{ordinal:064d}",
    )


def record(ordinal, **changes):
    answered = {
        "phase": 1,
        "ordinal": ordinal,
        "sample": ordinal,
        "repeat": 0,
        "turn": 0,
        "member": 0,
        "stream": 0,
        "scheduled_ns": 100 * MS,
        "sent_ns": 101 * MS,
        "event_ns": [105 * MS, 110 * MS, 130 * MS, 400 * MS],
        "event_tokens": [0, 1, 4, 0],
        "event_kind": ["role", "content", "content", "usage"],
        "last_event_ns": 130 * MS,
        "stream_end_ns": 401 * MS,
        "status": "ok",
        "http_status": 200,
        "finish_reason": "stop",
        "tries": 1,
        "prompt_tokens": 9,
        "completion_tokens": 5,
        "token_source": "usage",
        "text": "12.50",
        "request_sha256": f"{ordinal:064d}",
    }
    return {**dict.fromkeys(RECORD_COLUMNS), **answered, **changes}


LOST = {"status": "error", "http_status": None, "sent_ns": None, "stream_end_ns": None, "event_ns": [], "text": None}
LOST |= {"event_tokens": [], "event_kind": [], "last_event_ns": None, "error": "connect_failed: refused"}


@pytest.fixture
def seal(tmp_path):
    storage = open_storage(str(tmp_path / "storage"))
    work = tmp_path / "work"
    work.mkdir()
    watch = watched_memory([10, 20, 60, 50])
    secrets = ["sk-a-long-secret", "12.50"]
    sink = Sink(storage, run_id=uuid4(), claim_id=uuid4(), folder=work, secrets=secrets, watch=watch)

    def seal_records(records, *, keep_unanswered=True, sha256=None):
        path = work / "segment.parquet"
        polars.DataFrame(records, schema=polars_schema(RECORD_COLUMNS), strict=False).write_parquet(path)
        digest = sha256 or hashlib.sha256(path.read_bytes()).hexdigest()
        plans = {row["ordinal"]: planned(row["ordinal"]) for row in records}
        sealed = sink.seal(path, plans, phase=1, sha256=digest, keep_unanswered=keep_unanswered)
        return sealed, (polars.read_parquet(tmp_path / "storage" / sealed.chunk.storage_key) if sealed else None)

    seal_records.sink = sink
    return seal_records


def test_times_count_from_the_schedule_and_end_with_the_last_token(seal):
    sealed, _ = seal([record(0)])
    fact = sealed.rows[0]
    assert fact.status is FactStatus.OK
    assert fact.queue_ns == 1 * MS
    assert fact.ttft_user_ns == 10 * MS
    assert fact.ttft_service_ns == 9 * MS
    assert fact.latency_ns == 30 * MS
    assert fact.tpot_ns == 5 * MS


def test_a_key_that_an_endpoint_repeats_is_masked_in_answers_unless_it_is_short(seal):
    _, rows = seal([record(0, text="Bearer sk-a-long-secret", reasoning="sk-a-long-secret?"), record(1)])
    assert rows["text"].to_list() == ["Bearer ********", "12.50"]
    assert rows["reasoning"].to_list() == ["********?", None]


def test_a_key_is_masked_in_errors_whether_whole_cut_or_short(seal):
    failed = {"status": "error", "http_status": 400}
    _, rows = seal(
        [
            record(0, error="http_400: sk-a-long-secret and sk-a-lon… [code=sk-a-long-secret]", **failed),
            record(1, error="http_400: your key is 12.50", **failed),
            record(2, finish_reason="sk-a-long-secret"),
        ]
    )
    assert rows["error"].to_list() == [
        "http_400: ******** and … [code=********]",
        "http_400: your key is ********",
        None,
    ]
    assert rows["finish_reason"][2] == "********"


def test_an_answer_has_the_memory_of_the_accelerators_before_and_during_it(seal):
    _, rows = seal([record(0, sent_ns=150, stream_end_ns=320), record(1, **LOST)])
    assert rows["vram_before_bytes"].to_list() == [20, None]
    assert rows["vram_peak_bytes"].to_list() == [60, None]


def test_tokens_without_events_count_as_tokens_and_take_no_time(seal):
    sealed, _ = seal([record(0, completion_tokens=600)])
    assert (sealed.rows[0].completion_tokens, sealed.rows[0].tpot_ns) == (600, 5 * MS)


def test_a_chunk_has_the_requests_next_to_the_answers(seal):
    sealed, chunk = seal([record(0), record(1)])
    assert chunk.columns == list(CHUNK_COLUMNS)
    assert chunk["user_prompt"].to_list() == ["What is the total?"] * 2
    assert chunk["images"].to_list() == [["a" * 64]] * 2
    assert [fact.row for fact in sealed.rows] == [0, 1]
    assert sealed.chunk.rows == 2


def test_chunks_of_a_phase_are_numbered(seal):
    assert [seal([record(i)])[0].chunk.no for i in range(3)] == [0, 1, 2]


def test_a_failed_request_has_no_times_and_has_its_kind_of_failure(seal):
    sealed, chunk = seal(
        [record(0, status="error", http_status=422, error="http_422: the prompt is too long"), record(1, **LOST)]
    )
    assert [(fact.failure, fact.error_code) for fact in sealed.rows] == [
        ("model", "http_422"),
        ("infrastructure", "connect_failed"),
    ]
    assert all(fact.latency_ns is None for fact in sealed.rows)
    assert sealed.unanswered == 1
    assert chunk["failure"].to_list() == ["model", "infrastructure"]


def test_requests_that_a_lost_engine_did_not_answer_leave_no_row(seal):
    sealed, _ = seal([record(0), record(1, **LOST)], keep_unanswered=False)
    assert [fact.ordinal for fact in sealed.rows] == [0]
    assert seal([record(2, **LOST)], keep_unanswered=False)[0] is None


def test_the_window_ends_with_the_last_end_of_a_request(seal):
    late = {"status": "timeout", "last_event_ns": None, "event_ns": [], "event_kind": [], "event_tokens": []}
    sealed, _ = seal([record(0), record(1, **late, stream_end_ns=900 * MS, error="timeout: slow")])
    assert (sealed.first_sent_ns, sealed.last_end_ns) == (101 * MS, 900 * MS)


REFUSED = {code: {"status": "error", "http_status": code, "error": f"http_{code}: no"} for code in (401, 403)}
SKIPPED = {**LOST, "status": "skipped", "error": "conversation_ended: the turn before failed"}


@pytest.mark.parametrize(
    ("rows", "refusal"),
    [
        ([REFUSED[401], REFUSED[401]], 401),
        ([REFUSED[401], SKIPPED], 401),
        ([REFUSED[403]], None),
        ([REFUSED[401], REFUSED[403]], None),
        ([REFUSED[401], {}], None),
        ([{}, REFUSED[403], {}], None),
        ([REFUSED[401], LOST], None),
        ([SKIPPED], None),
    ],
)
def test_a_key_counts_as_refused_if_all_requests_of_a_segment_are_refused(seal, rows, refusal):
    sealed, _ = seal([record(place, **changes) for place, changes in enumerate(rows)])
    assert len(sealed.rows) == len(rows)
    assert (sealed.refusal and sealed.refusal.http_status) == refusal


def test_a_segment_that_is_not_the_announced_file_is_refused(seal):
    with pytest.raises(ValueError, match=r"segment\.parquet"):
        seal([record(0)], sha256="0" * 64)


def test_a_sample_that_cannot_be_read_becomes_an_error_row(seal, tmp_path):
    sealed = seal.sink.unsent([(planned(4), "unreadable_sample: image 0 is no image")], phase=1)
    chunk = polars.read_parquet(tmp_path / "storage" / sealed.chunk.storage_key)
    assert chunk["error"].to_list() == ["unreadable_sample: image 0 is no image"]
    fact = sealed.rows[0]
    assert (fact.status, fact.failure, fact.error_code) == (FactStatus.ERROR, "infrastructure", "unreadable_sample")


def test_a_request_that_was_not_made_is_nobodys_failure(seal, tmp_path):
    sealed = seal.sink.unsent([(planned(4), "not_asked: The stage read has no answer.")], phase=1)
    chunk = polars.read_parquet(tmp_path / "storage" / sealed.chunk.storage_key)
    assert chunk["error"].to_list() == ["not_asked: The stage read has no answer."]
    fact = sealed.rows[0]
    assert (fact.status, fact.failure, fact.error_code) == (FactStatus.ERROR, None, "not_asked")
