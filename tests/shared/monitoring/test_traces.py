"""Which trace a run belongs to, and what spans cost where nobody receives them."""

import subprocess
import sys
import time
from uuid import UUID

import pytest

from tests.support.otlp import receiving
from tests.support.processes import PATIENCE_S
from tests.support.stack import until
from vlmhyperbench.monitoring.trace_context import owner_context, span_id_of, valid_traceparent
from vlmhyperbench.monitoring.tracing import current, is_tracing, record_below, span, tracing

RUN = UUID("0a1b2c3d-4e5f-4678-9abc-def012345678")
TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


def test_a_run_without_a_header_has_a_trace_with_its_own_id():
    context = owner_context(RUN, None)
    assert (context.trace_id, context.span_id, context.parent_id) == (RUN.hex, "9abcdef012345678", None)
    assert span_id_of(RUN) == context.span_id


@pytest.mark.parametrize(("flags", "is_sampled"), [("01", True), ("00", False), ("03", True)])
def test_a_run_continues_the_trace_of_the_request_that_submitted_it(flags, is_sampled):
    context = owner_context(RUN, f"00-{TRACE}-{PARENT}-{flags}")
    assert (context.trace_id, context.parent_id, context.is_sampled) == (TRACE, PARENT, is_sampled)


@pytest.mark.parametrize(
    ("header", "is_valid"),
    [
        (f"00-{TRACE}-{PARENT}-01", True),
        (f"cc-{TRACE}-{PARENT}-01-later", True),
        (f"00-{TRACE}-{PARENT}-01-extra", False),
        (f"ff-{TRACE}-{PARENT}-01", False),
        (f"00-{'0' * 32}-{PARENT}-01", False),
        (f"00-{TRACE}-{'0' * 16}-01", False),
        (f"00-{TRACE.upper()}-{PARENT}-01", False),
        ("", False),
        (None, False),
        (f"cc-{TRACE}-{PARENT}-01-{'x' * 300}", False),
    ],
)
def test_headers_that_are_not_those_of_the_standard_are_ignored(header, is_valid):
    assert (valid_traceparent(header) is not None) == is_valid


def test_spans_are_sent_below_their_parents_with_errors_by_class_alone():
    owner = owner_context(RUN, None)
    with receiving() as receiver, tracing("tests", receiver.url, version="1"):
        assert is_tracing()
        with span("job", {"attempt": 1}, parent=owner, span_id="00000000000000aa"):
            record_below(None, "wait", start_ns=time.time_ns())
            with pytest.raises(ValueError, match="secret"), span("step"):
                raise ValueError("a secret")
        until(lambda: len(receiver.spans) == 3, "three spans", PATIENCE_S)
    job, wait, step = (next(row for row in receiver.spans if row.name == name) for name in ("job", "wait", "step"))
    assert (job.trace_id, job.span_id, job.parent_id) == (RUN.hex, "00000000000000aa", owner.span_id)
    assert {wait.parent_id, step.parent_id} == {job.span_id}
    assert (step.error, wait.error) == ("ValueError", "")
    assert job.service == "vlmhyperbench-tests"
    assert current() is None


def test_a_trace_that_is_not_sampled_is_not_sent():
    with receiving() as receiver:
        with (
            tracing("tests", receiver.url, version="1"),
            span("job", parent=owner_context(RUN, f"00-{TRACE}-{PARENT}-00")),
        ):
            pass
        assert not receiver.spans


def test_without_endpoint_and_port_nothing_of_it_is_imported():
    """The client of Redis imports OpenTelemetry wherever it is installed, so that the runtime is not among these."""
    program = """
import sys
from vlmhyperbench.monitoring.exporting import exporting
from vlmhyperbench.monitoring.recording import count
from vlmhyperbench.monitoring.tracing import tracing, span
with exporting("127.0.0.1", 0), tracing("x", "", version="1"), span("x"):
    count("claims_total", kind="GENERATE")
print(*sorted({name.split(".")[0] for name in sys.modules} & {"opentelemetry", "prometheus_client"}))
"""
    printed = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
    assert printed.split() == []
