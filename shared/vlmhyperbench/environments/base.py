"""The contract of every kind of environment: a pinned spec becomes something in which an engine can be started.

set up      `preparing.prepared(spec, …)` builds what the spec pins unless it is there, and yields `Prepared`
run         the gateway starts the engine with `Prepared.python`, or hands it to `Prepared.launcher`, which stands in
            for it: its output is the engine's log, SIGTERM and SIGKILL end the engine, and it ends as the engine ends.
            What the two exchange: `vlmhyperbench_sdk.gateway.EngineEnvironment.launcher`
mount data  the launcher gets the paths of all files that the engine reads, and makes them readable at the same paths,
            or replaces the paths in the engine's command line by those at which it put them
limits      memory, processor and processes are in the spec; a launcher that cannot keep a declared limit refuses
devices     the GPUs that `CUDA_VISIBLE_DEVICES` leaves to this process, as `standing_in.gpus` reads it
clean up    what a launcher made ends with it, also when it is killed; what a killed one could not remove, the next
            removes. `EnvironmentStore.remove` removes what was built
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from vlmhyperbench.errors import STORAGE_FULL, Unavailable
from vlmhyperbench_sdk.gateway import EngineEnvironment

ENGINE_VARIABLES = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "LC_*", "TZ", "TMPDIR", "XDG_*"),
    *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "LD_LIBRARY_PATH", "LD_PRELOAD"),
    *("CUDA_*", "NVIDIA_*", "NCCL_*", "ROCR_*", "HIP_*", "OMP_*", "MKL_*", "OPENBLAS_*", "KMP_*", "MALLOC_*"),
    *("HF_*", "TRANSFORMERS_*", "TOKENIZERS_*", "TORCH_*", "TORCHINDUCTOR_*", "PYTORCH_*", "TRITON_*", "GGML_*"),
    *("VLLM_*", "SGLANG_*", "DO_NOT_TRACK", "SLURM_*"),
)
"""Variables of the worker that an engine in an environment of its own inherits, unless they look like credentials."""

GATEWAY_VARIABLES = (*ENGINE_VARIABLES, "DOCKER_*", "APPTAINER_*", "SINGULARITY_*")
"""Those that a gateway in an environment of its own inherits: its engine may run in a container."""

CONTAINER_VARIABLES = (
    *("LANG", "LC_*", "TZ", "OMP_*", "MKL_*", "OPENBLAS_*", "KMP_*", "MALLOC_*", "NCCL_*", "GGML_*", "DO_NOT_TRACK"),
    *("TOKENIZERS_*", "PYTORCH_*", "VLLM_*", "SGLANG_*"),
)
"""Those that an engine in a container inherits: none that names a path or an address of this machine."""

METRIC_VARIABLES = (*ENGINE_VARIABLES, "JAVA_HOME", "NLTK_DATA")
"""Variables that a metric in an environment of its own inherits, unless they look like credentials."""

PreparationStep = Literal[
    "fetching", "resolving", "waiting", "renting", "installing", "converting", "quantizing", "testing"
]
"""What takes time while an environment is prepared, or the files of a model are made or a package is tested in one."""

Tell = Callable[[PreparationStep, int | None], Awaitable[None]]
"""Receives a step of the preparation, and the number of packages, if known."""


async def tell_nobody(step: PreparationStep, packages: int | None) -> None:
    """Receive a step and do nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """An environment that is ready, for as long as the block that prepared it lasts."""

    key: str
    """Hash of what was resolved, of the interpreter and of the manager."""
    python: str
    """Path of its interpreter."""
    python_version: str
    packages: Mapping[str, str]
    """Distribution → version, as resolved."""
    lock_fd: int
    """Open lock file: as long as a process has it, the environment is in use and is not removed."""
    inherited: tuple[str, ...] = ENGINE_VARIABLES
    """Patterns of the variables that an engine inherits."""
    image: str | None = None
    """Digest of a container's image."""
    launcher: tuple[str, ...] = ()
    """Command that starts the engine in it; empty: the interpreter is started directly."""

    rented: Path | None = None
    """Record of the rented machine on which the engine runs; None: it runs on this one."""

    def engine(self, plain: EngineEnvironment) -> EngineEnvironment:
        """Return what a gateway is started with so that its engine runs in this environment."""
        return replace(
            plain,
            python=self.python,
            inherited=self.inherited,
            launcher=self.launcher,
            is_rented=self.rented is not None,
        )


def full_disk(folder: Path) -> Unavailable:
    """Return the error of a disk that has no space for an environment."""
    return Unavailable(
        f"There is no space left for an environment in {folder}.",
        cure="Free some space, for example with `vlmhyperbench envs remove`, or set VLMHB_HOME to a larger disk.",
        code=STORAGE_FULL,
    )
