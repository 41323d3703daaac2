"""Memory of a GPU reaches every request, the claim and the CSV, read through a library in place of NVML's own.

The library is compiled here and has the functions of `libnvidia-ml.so.1` that the platform calls, for one GPU whose
memory grows with every reading. So no GPU is needed, and all but the driver itself is real.
"""

import csv
import io
import shutil
import subprocess

import pytest

from tests.support.stack import running_stack
from vlmhyperbench.registry.schemas import RunEntry

GIB = 2**30
NVML = f"""
#include <string.h>
typedef struct {{ unsigned long long total, free, used; }} memory_t;
typedef struct {{ unsigned gpu, memory; }} utilization_t;
static unsigned long long readings;
int nvmlInitWithFlags(unsigned flags) {{ return 0; }}
int nvmlShutdown(void) {{ return 0; }}
int nvmlSystemGetDriverVersion(char *text, unsigned length) {{ strncpy(text, "570.86.10", length); return 0; }}
int nvmlSystemGetCudaDriverVersion_v2(int *version) {{ *version = 12080; return 0; }}
int nvmlDeviceGetCount_v2(unsigned *count) {{ *count = 1; return 0; }}
int nvmlDeviceGetHandleByIndex_v2(unsigned no, void **device) {{ *device = (void *)1; return 0; }}
int nvmlDeviceGetUUID(void *device, char *text, unsigned length) {{ strncpy(text, "GPU-stand-in", length); return 0; }}
int nvmlDeviceGetName(void *device, char *text, unsigned length) {{ strncpy(text, "Stand-in", length); return 0; }}
int nvmlDeviceGetMemoryInfo(void *device, memory_t *memory) {{
    memory->total = 80ULL * {GIB};
    memory->used = {GIB} + 1048576ULL * readings++;
    memory->free = memory->total - memory->used;
    return 0;
}}
int nvmlDeviceGetUtilizationRates(void *device, utilization_t *rates) {{ rates->gpu = 50; return 0; }}
int nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatts) {{ *milliwatts = 300000; return 0; }}
int nvmlDeviceGetTemperature(void *device, unsigned sensor, unsigned *celsius) {{ *celsius = 40; return 0; }}
int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, void *users) {{ *count = 0; return 0; }}
"""


@pytest.fixture(scope="module")
def stack(registries, tmp_path_factory):
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("There is no C compiler to make a library in place of NVML's own.")
    folder = tmp_path_factory.mktemp("nvml")
    (folder / "nvml.c").write_text(NVML)
    library = folder / "libnvidia-ml.so.1"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, folder / "nvml.c"], check=True)
    with running_stack(registries, LD_LIBRARY_PATH=str(folder)) as found:
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
    assert min(growths) >= 0
    assert 1 <= max(growths) <= 100
    assert peaks == sorted(peaks)
    assert peaks[0] < peaks[-1]


def test_the_claim_has_the_memory_before_the_load_and_its_peak(stack, run):
    [(resources, machine)] = stack.query(
        "SELECT resources, machine FROM claim WHERE run_id = %s AND engine IS NOT NULL", run.id
    )
    assert GIB <= resources["accelerator_memory_before_load_bytes"] < resources["accelerator_memory_used_bytes_peak"]
    assert resources["power_accelerator_w_mean"] == pytest.approx(300)
    assert (machine["driver"], machine["cuda"]) == ("570.86.10", "12.8")
    assert machine["devices"] == [{"kind": "gpu", "name": "Stand-in", "memory_bytes": 80 * GIB, "uuid": "GPU-stand-in"}]


def test_the_manifest_names_driver_and_gpu(stack, run):
    [used] = stack.client.runs.manifest(run.id).engines
    assert (used.machine["driver"], used.machine["devices"][0]["uuid"]) == ("570.86.10", "GPU-stand-in")
