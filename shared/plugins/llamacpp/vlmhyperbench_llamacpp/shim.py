"""Serve one GGUF model with llama.cpp's own server through `xllamacpp`; started by path, in the engine's environment.

It needs only `xllamacpp` and the standard library. All automatic choices of llama.cpp are disabled: no fitting of the
context to the memory, no prompt cache, no context shift, no network. SIGTERM ends it.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import threading
from pathlib import Path

import xllamacpp


def main() -> int:
    """Load the model, serve on loopback and wait for the signal; exit with 1 if the model cannot be loaded."""
    args = _parse()
    if not xllamacpp.json_schema_to_grammar("{}").startswith("%llguidance"):
        print("This xllamacpp is built without llguidance, which enforces formats.", file=sys.stderr, flush=True)
        return 1
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    try:
        server = xllamacpp.Server(_params(args))
    # An AttributeError says that another version has other parameters.
    except (OSError, RuntimeError, ValueError, AttributeError) as error:
        print(f"llama.cpp cannot load {args.model}: {error}", file=sys.stderr, flush=True)
        return 1
    print(json.dumps({"event": "listening", "url": server.listening_address}), flush=True)
    stop.wait()
    return 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("host", "model", "alias", "flash-attn", "cache-type-k", "cache-type-v", "mmproj-offload"):
        parser.add_argument(f"--{name}", required=True)
    for name in ("port", "n-ctx", "parallel", "threads", "n-batch", "n-ubatch", "n-gpu-layers", "image-max-tokens"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--mmproj")
    parser.add_argument("--chat-template", help="file that stands in place of the template in the weights")
    parser.add_argument("--dry-run", action="store_true", help="print what a load would take; the caller ends it then")
    return parser.parse_args()


def _params(args: argparse.Namespace) -> xllamacpp.CommonParams:
    params = xllamacpp.CommonParams()
    params.model.path = args.model
    params.model_alias = {args.alias}
    if args.mmproj:
        params.mmproj.path = args.mmproj
        params.mmproj_use_gpu = args.n_gpu_layers != 0 and args.mmproj_offload == "on"
        if args.image_max_tokens:
            params.image_max_tokens = args.image_max_tokens
    if args.chat_template:
        params.chat_template = Path(args.chat_template).read_text(encoding="utf-8")
    params.hostnames = [args.host]
    params.port = args.port

    params.n_ctx = args.n_ctx * args.parallel
    params.n_parallel = args.parallel
    params.kv_unified = False
    params.fit_params = False
    params.n_gpu_layers = args.n_gpu_layers
    params.n_batch = args.n_batch
    params.n_ubatch = args.n_ubatch
    params.cpuparams.n_threads = args.threads
    params.cpuparams_batch.n_threads = args.threads
    params.flash_attn_type = getattr(
        xllamacpp.llama_flash_attn_type,
        f"LLAMA_FLASH_ATTN_TYPE_{'ENABLED' if args.flash_attn == 'on' else 'DISABLED'}",
    )
    params.cache_type_k = getattr(xllamacpp.ggml_type, f"GGML_TYPE_{args.cache_type_k.upper()}")
    params.cache_type_v = getattr(xllamacpp.ggml_type, f"GGML_TYPE_{args.cache_type_v.upper()}")

    params.cache_prompt = False
    params.cache_ram_mib = 0
    params.cache_idle_slots = False
    params.n_cache_reuse = 0
    params.n_ctx_checkpoints = 0
    params.slot_prompt_similarity = 0.0
    params.ctx_shift = False
    params.warmup = True
    params.endpoint_metrics = True
    params.offline = True
    params.ui = False
    params.models_autoload = False
    if args.dry_run:
        params.fit_params = True
        params.verbosity = 10
    return params


if __name__ == "__main__":
    sys.exit(main())
