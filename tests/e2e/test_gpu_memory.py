"""Memory of a GPU reaches every request, the claim and the CSV, read through a library in place of NVML's own.

The memory of its one GPU grows with every reading.
"""

import csv
import io

import pytest

from tests.support.nvml import GIB, RESERVED, fake_driver
from tests.support.stack import running_stack
from vlmhyperbench.registry.schemas import RunEntry


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    return fake_driver(tmp_path_factory.mktemp("nvml"))


@pytest.fixture(scope="module")
def stack(registries, driver):
    with running_stack(registries, LD_LIBRARY_PATH=str(driver.folder)) as found:
        yield found


@pytest.fixture(scope="module")
def run(stack):
    entry = {"target": {"model": "simulated"}, "task": "synthetic-questions", "limit": 6}
    entry["scenario"] = {"name": "offline", "in_flight": 1}
    ended = stack.wait(stack.client.runs.create(RunEntry.model_validate(entry)).id)
    assert (ended.state, ended.failed) == ("SUCCEEDED", 0), stack.logs()
    return ended


def test_every_row_of_the_csv_has_the_peak_and_the_growth_of_the_memory(stack, run):
    files = {file.name: file.id for file in stack.client.report(run.id).files}
    content = stack.client.artifact_content(files["answers.csv"]).decode()
    rows = list(csv.DictReader(io.StringIO(content), delimiter=";"))
    assert len(rows) == 6
    # A request lasts four readings, or fewer on a busy machine; each is 1 MiB more than the one before.
    peaks = [float(row["vram_peak_mb"]) for row in rows]
    growths = [float(row["vram_delta_mb"]) for row in rows]
    assert min(peaks) > 1024
    assert peaks == sorted(peaks)
    assert peaks[0] < peaks[-1]
    # One request is in flight: each begins at what the one before had at its end, or more, and has its own growth only.
    begins = [peak - growth for peak, growth in zip(peaks, growths, strict=True)]
    assert all(begin >= earlier - 0.01 for earlier, begin in zip(peaks, begins[1:], strict=False))
    assert 1 <= max(growths) <= 100
    [[resources]] = stack.query("SELECT resources FROM claim WHERE run_id = %s AND engine IS NOT NULL", run.id)
    assert begins[0] * 2**20 > resources["accelerator_memory_before_load_bytes"]
    assert peaks[-1] * 2**20 <= resources["accelerator_memory_used_bytes_peak"] + 2**20


def test_the_claim_has_the_memory_before_the_load_and_its_peak(stack, run, driver):
    [(resources, machine)] = stack.query(
        "SELECT resources, machine FROM claim WHERE run_id = %s AND engine IS NOT NULL", run.id
    )
    assert GIB <= resources["accelerator_memory_before_load_bytes"] < resources["accelerator_memory_used_bytes_peak"]
    assert resources["power_accelerator_w_mean"] == pytest.approx(300)
    assert (machine["driver"], machine["cuda"]) == ("570.86.10", "12.8")
    assert machine["devices"] == [
        {"kind": "gpu", "name": "Stand-in", "memory_bytes": 80 * GIB - RESERVED, "uuid": driver.gpus[0]}
    ]


def test_the_manifest_names_driver_and_gpu(stack, run, driver):
    [used] = stack.client.runs.manifest(run.id).engines
    assert (used.machine["driver"], used.machine["devices"][0]["uuid"]) == ("570.86.10", driver.gpus[0])
