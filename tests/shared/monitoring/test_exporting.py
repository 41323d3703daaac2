"""A process serves what it counts and whether it lives, or says which port it cannot have."""

import socket
import urllib.request

import pytest

from vlmhyperbench.errors import Unavailable
from vlmhyperbench.monitoring.exporting import exporting
from vlmhyperbench.monitoring.numbers import Number, find, read_text, write_text
from vlmhyperbench.monitoring.recording import count, counted, is_recording, set_gauge


@pytest.fixture
def port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_what_is_counted_is_served_until_the_end(port):
    with exporting("127.0.0.1", port):
        count("claims_total", 2, kind="GENERATE")
        set_gauge("jobs_running", 1)
        with pytest.raises(RuntimeError), counted("target_loads_total", duration="target_load_duration_seconds"):
            raise RuntimeError
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
            numbers = read_text(answer.read().decode())
    values = {(row.name, *row.labels.values()): row.value for row in numbers}
    assert values["claims_total", "GENERATE"] == 2
    assert values["jobs_running",] == 1
    assert values["target_loads_total", "failed"] == 1
    assert not is_recording()


def test_a_name_that_is_not_in_the_table_is_an_error_where_anything_is_served(port):
    count("no_such_metric")
    with exporting("127.0.0.1", port), pytest.raises(KeyError):
        count("no_such_metric")


def test_a_port_that_is_taken_is_named(wording):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        number = taken.getsockname()[1]
        with pytest.raises(Unavailable) as refused, exporting("127.0.0.1", number):
            pass
    assert refused.value.code == "port_in_use"
    wording(refused.value.message.replace(str(number), "PORT"))


def test_numbers_are_read_as_they_were_written():
    written = [
        Number(name="queue_depth", value=3, labels={"kind": "inference"}),
        Number(name="alerts_recent", value=2, labels={"code": 'of "quotes"\n'}),
    ]
    read = read_text(write_text(written).decode())
    assert sorted(read, key=lambda row: row.name) == sorted(written, key=lambda row: row.name)
    assert [row.value for row in find(read, "queue_depth", kind="inference")] == [3]
