"""A library in place of NVML's own, compiled for a test, whose GPUs are what a file says at this instant.

It has the functions of `libnvidia-ml.so.1` that the platform calls, so that no GPU is needed and everything but the
driver itself is real. GPUs may be lost, have MIG slices, and report Xid errors while processes watch them.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

import pytest

from vlmhyperbench.files import write_whole

GIB = 2**30
RESERVED = 2**29
"""What the driver keeps of the memory of a GPU."""
_SOURCE = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static const unsigned long long RESERVED = 512ULL << 20;
enum { SUCCESS = 0, INVALID = 2, UNSUPPORTED = 3, NOT_FOUND = 6, TIMEOUT = 10, LOST = 15, MAX = 32 };
typedef struct { unsigned long long total, free, used; } memory_t;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } memory_v2_t;
typedef struct { unsigned gpu, memory; } utilization_t;
typedef struct { void *device; unsigned long long type, data; unsigned gpu_instance, compute_instance; } event_t;
typedef struct { char uuid[96]; unsigned gib; int parent, is_lost; unsigned instance; } device_t;
typedef struct { int gpu; unsigned xid, instance; } error_t_;
static device_t devices[MAX];
static error_t_ errors[MAX];
static int gpus, slices, number_of_errors, delivered, registered[MAX];
static unsigned long long readings;

static void look(void) {
    FILE *file = fopen(STATE, "r");
    char kind[16], uuid[96];
    unsigned a, b, c;
    gpus = slices = number_of_errors = 0;
    while (file && fscanf(file, "%15s %95s %u %u %u", kind, uuid, &a, &b, &c) == 5) {
        if (!strcmp(kind, "gpu")) {
            strcpy(devices[gpus].uuid, uuid);
            devices[gpus].gib = a; devices[gpus].is_lost = b; devices[gpus].parent = -1;
            devices[gpus].instance = c;  // of a whole GPU: the number of its model
            if (b) registered[gpus] = 0;
            gpus++;
        } else if (!strcmp(kind, "slice")) {
            device_t *slice = &devices[MAX / 2 + slices++];
            strcpy(slice->uuid, uuid);
            slice->gib = a; slice->parent = b; slice->instance = c; slice->is_lost = 0;
        } else {
            errors[number_of_errors].gpu = a; errors[number_of_errors].xid = b;
            errors[number_of_errors++].instance = c;
        }
    }
    if (file) fclose(file);
}
static int of(void *handle, device_t **device) {
    look();
    *device = &devices[(long)handle - 1];
    return (*device)->is_lost ? LOST : SUCCESS;
}
int nvmlInitWithFlags(unsigned flags) { return SUCCESS; }
int nvmlShutdown(void) { return SUCCESS; }
int nvmlSystemGetDriverVersion(char *text, unsigned length) { strncpy(text, "570.86.10", length); return SUCCESS; }
int nvmlSystemGetCudaDriverVersion_v2(int *version) { *version = 12080; return SUCCESS; }
int nvmlDeviceGetCount_v2(unsigned *count) { look(); *count = gpus; return SUCCESS; }
int nvmlDeviceGetHandleByIndex_v2(unsigned no, void **handle) {
    device_t *device;
    *handle = (void *)(long)(no + 1);
    return of(*handle, &device);
}
int nvmlDeviceGetHandleByUUID(const char *uuid, void **handle) {
    look();
    for (int no = 0; no < MAX; no++)
        if ((no < gpus || (no >= MAX / 2 && no < MAX / 2 + slices)) && !strcmp(devices[no].uuid, uuid)) {
            *handle = (void *)(long)(no + 1);
            return devices[no].is_lost ? LOST : SUCCESS;
        }
    return NOT_FOUND;
}
int nvmlDeviceGetUUID(void *handle, char *text, unsigned length) {
    device_t *device;
    int status = of(handle, &device);
    strncpy(text, device->uuid, length);
    return status;
}
int nvmlDeviceGetName(void *handle, char *text, unsigned length) {
    device_t *device;
    int status = of(handle, &device);
    int is_other = device->parent < 0 && device->instance;
    strncpy(text, is_other ? "Other stand-in" : "Stand-in", length);
    return status;
}
int nvmlDeviceGetMemoryInfo(void *handle, memory_t *memory) {
    device_t *device;
    int status = of(handle, &device);
    memory->total = (unsigned long long)device->gib << 30;
    memory->used = (1ULL << 30) + 1048576ULL * readings++;
    memory->free = memory->total - memory->used;
    return status;
}
int nvmlDeviceGetMemoryInfo_v2(void *handle, memory_v2_t *memory) {
    device_t *device;
    int status = of(handle, &device);
    memory->total = (unsigned long long)device->gib << 30;
    memory->reserved = device->parent < 0 ? RESERVED : 0; memory->used = 1ULL << 30;
    memory->free = memory->total - memory->reserved - memory->used;
    return status;
}
int nvmlDeviceGetUtilizationRates(void *handle, utilization_t *rates) { rates->gpu = 50; return SUCCESS; }
int nvmlDeviceGetPowerUsage(void *handle, unsigned *milliwatts) { *milliwatts = 300000; return SUCCESS; }
int nvmlDeviceGetTemperature(void *handle, unsigned sensor, unsigned *celsius) { *celsius = 40; return SUCCESS; }
int nvmlDeviceGetComputeRunningProcesses_v3(void *handle, unsigned *count, void *users) { *count = 0; return SUCCESS; }
int nvmlDeviceGetMigMode(void *handle, unsigned *current, unsigned *pending) {
    look();
    *current = *pending = 0;
    for (int no = 0; no < slices; no++) *current |= devices[MAX / 2 + no].parent == (long)handle - 1;
    return SUCCESS;
}
int nvmlDeviceGetMaxMigDeviceCount(void *handle, unsigned *count) { *count = 7; return SUCCESS; }
int nvmlDeviceGetMigDeviceHandleByIndex(void *handle, unsigned no, void **slice) {
    look();
    for (int other = 0; other < slices; other++)
        if (devices[MAX / 2 + other].parent == (long)handle - 1 && no-- == 0) {
            *slice = (void *)(long)(MAX / 2 + other + 1);
            return SUCCESS;
        }
    return NOT_FOUND;
}
int nvmlDeviceGetGpuInstanceId(void *handle, unsigned *instance) {
    device_t *device;
    int status = of(handle, &device);
    *instance = device->instance;
    return status;
}
int nvmlEventSetCreate(void **set) { look(); delivered = number_of_errors; *set = (void *)1; return SUCCESS; }
int nvmlEventSetFree(void *set) { return SUCCESS; }
int nvmlDeviceRegisterEvents(void *handle, unsigned long long types, void *set) {
    if (types != 8) return INVALID;
    if (devices[(long)handle - 1].instance) return UNSUPPORTED;
    registered[(long)handle - 1] = 1;
    return SUCCESS;
}
int nvmlEventSetWait_v2(void *set, event_t *event, unsigned milliseconds) {
    for (unsigned waited = 0;; waited += 20) {
        look();
        while (delivered < number_of_errors) {
            error_t_ *error = &errors[delivered++];
            if (!registered[error->gpu]) continue;
            event->device = (void *)(long)(error->gpu + 1);
            event->type = 8; event->data = error->xid; event->gpu_instance = error->instance;
            event->compute_instance = 0xFFFFFFFF;
            return SUCCESS;
        }
        if (waited >= milliseconds) return TIMEOUT;
        usleep(20000);
    }
}
"""
ALL_INSTANCES = 0xFFFFFFFF


@dataclass
class FakeDriver:
    """The GPUs that the compiled library shows; a change is seen by every process at its next call."""

    folder: Path
    """To be put into `LD_LIBRARY_PATH`."""
    gpus: list[str]
    """UUIDs, unique to the test, because locks of GPUs are those of the machine."""
    gib: int = 80
    lost: set[int] = field(default_factory=set)
    others: set[int] = field(default_factory=set)
    """Numbers of the GPUs that are of another model, which sends no events."""
    slices: list[tuple[int, str]] = field(default_factory=list)
    """Number of the GPU and UUID of each MIG slice."""
    is_one_instance: bool = False
    """Whether all slices are compute instances of one GPU instance, whose memory they share."""
    errors: list[tuple[int, int, int]] = field(default_factory=list)
    """Number of the GPU, Xid, and the instance of the slice that it concerns."""

    def report_xid(self, gpu: int, xid: int, *, instance: int = ALL_INSTANCES) -> None:
        """Let a GPU report an Xid error once to every process that watches it."""
        self.errors.append((gpu, xid, instance))
        self.write()

    def lose(self, gpu: int) -> None:
        """Let a GPU fall off the bus."""
        self.lost.add(gpu)
        self.write()

    def restore(self, gpu: int) -> None:
        """Let a lost GPU come back."""
        self.lost.discard(gpu)
        self.write()

    def write(self) -> None:
        """Write the state that the library reads."""
        lines = [
            f"gpu {uuid} {self.gib} {int(no in self.lost)} {int(no in self.others)}"
            for no, uuid in enumerate(self.gpus)
        ]
        lines += [
            f"slice {uuid} {self.gib // 8} {gpu} {1 if self.is_one_instance else no + 1}"
            for no, (gpu, uuid) in enumerate(self.slices)
        ]
        lines += [f"xid - {gpu} {xid} {instance}" for gpu, xid, instance in self.errors]
        write_whole(self.folder / "state", ("\n".join(lines) + "\n").encode(), mode=0o644)


def fake_driver(folder: Path, *, gpus: int = 1, slices_of: Sequence[int] = ()) -> FakeDriver:
    """Compile the library into a folder; `slices_of` has the number of a GPU once for each of its MIG slices."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("There is no C compiler to make a library in place of NVML's own.")
    (folder / "nvml.c").write_text(f'#define STATE "{folder / "state"}"\n{_SOURCE}')
    library = folder / "libnvidia-ml.so.1"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, folder / "nvml.c"], check=True)
    driver = FakeDriver(
        folder=folder,
        gpus=[f"GPU-{uuid4()}" for _ in range(gpus)],
        slices=[(gpu, f"MIG-{uuid4()}") for gpu in slices_of],
    )
    driver.write()
    return driver
