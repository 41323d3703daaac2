"""State the settings that an engine takes from the environment of whoever started the worker.

No entry pins them, and they change answers or times: an attention backend, a number of threads, a preloaded allocator.
"""

from __future__ import annotations

from collections.abc import Collection
from fnmatch import fnmatchcase
from typing import Final

from vlmhyperbench.logs import process_masker
from vlmhyperbench.processes import child_environment
from vlmhyperbench_sdk.gateway import EngineEnvironment

SETTINGS: Final = (
    *("LD_LIBRARY_PATH", "LD_PRELOAD", "NVIDIA_TF32_OVERRIDE", "CUBLAS_*", "CUDA_*", "NCCL_*", "ROCR_*", "HIP_*"),
    *("OMP_*", "MKL_*", "OPENBLAS_*", "KMP_*", "MALLOC_*", "TRANSFORMERS_*", "TOKENIZERS_*", "TORCH_*"),
    *("TORCHINDUCTOR_*", "PYTORCH_*", "TRITON_*", "GGML_*", "LLAMA_*", "VLLM_*", "SGLANG_*"),
)
"""Patterns of variables that engines and their libraries read as settings."""

_NO_SETTINGS: Final = (
    *("*_VISIBLE_DEVICES", "*_HOME", "*_ROOT", "*_CACHE", "*_CACHE_*", "CUDA_PATH", "CUDA_VERSION"),
    *("*_OFFLINE", "*_VERBOSITY", "*_LOG*"),
)
"""Patterns of those among them that say where something lies, which device is used, or what is logged."""

_MAX_LENGTH: Final = 1000


def settings_of(environment: EngineEnvironment, *, given: Collection[str]) -> dict[str, str]:
    """Return the settings that an engine inherits from this process, by name; values are masked and bounded.

    Args:
        environment: What says which variables the engine inherits.
        given: Names of the variables that adapter and target set themselves.
    """
    stated = {*environment.variables, *given}
    return {
        name: process_masker.mask(value)[:_MAX_LENGTH]
        for name, value in sorted(child_environment(inherited=environment.inherited).items())
        if name not in stated and _matches(name, SETTINGS) and not _matches(name, _NO_SETTINGS)
    }


def _matches(name: str, patterns: Collection[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
