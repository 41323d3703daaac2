#!/usr/bin/env bash
# Write the pins with hashes from the ranges in every member's pyproject.toml. Usage: pins.sh UV MEMBER...
set -euo pipefail
uv=$1; shift
projects=(); skip=()
for member in "$@"; do
    projects+=("$member/pyproject.toml")
    name=$(sed -n 's/^name = "\(.*\)"/\1/p' "$member/pyproject.toml" | head -n 1)
    skip+=(--no-emit-package "$name")
done
compile() {
    out=$1; shift
    "$uv" pip compile --quiet --universal --generate-hashes --no-header --no-annotate --python-version 3.11 \
        --upgrade "${skip[@]}" --output-file "requirements/$out" "$@"
}
compile uv.txt requirements/uv.in
compile platform.txt --all-extras "${projects[@]}" requirements/build.in
compile dev.txt --all-extras -c requirements/platform.txt "${projects[@]}" requirements/dev.in
