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
# The members name each other by version, as they do on an index: their wheels stand in for it.
dist=$(mktemp -d); trap 'rm -rf "$dist"' EXIT
"$uv" build --quiet --all-packages --wheel --out-dir "$dist"
compile() {
    out=$1; shift
    "$uv" pip compile --quiet --universal --generate-hashes --no-header --no-annotate --python-version 3.11 \
        --upgrade --find-links "$dist" "${skip[@]}" --output-file "requirements/$out" "$@"
}
compile uv.txt requirements/uv.in
compile platform.txt --all-extras "${projects[@]}" requirements/build.in
compile dev.txt --all-extras -c requirements/platform.txt "${projects[@]}" requirements/dev.in
for image in build control workers; do
    compile "images/$image.txt" -c requirements/platform.txt "requirements/images/$image.in"
done
"$uv" pip compile --quiet --generate-hashes --no-header --no-annotate --python-version 3.11 --upgrade \
    --override requirements/charts_without.txt --output-file requirements/charts.txt requirements/charts.in
"$uv" pip compile --quiet --generate-hashes --no-header --no-annotate --python-version 3.11 --upgrade \
    --output-file requirements/node.txt requirements/node.in
# Of SGLang only its compiled client is used, which needs none of its dependencies.
"$uv" pip compile --quiet --no-deps --generate-hashes --no-header --no-annotate --python-version 3.11 --upgrade \
    --output-file requirements/engines/sglang.txt requirements/engines/sglang.in
# Of the harnesses only their scoring is called, which needs few of their packages.
"$uv" pip compile --quiet --no-deps --generate-hashes --no-header --no-annotate --python-version 3.11 --upgrade \
    --output-file requirements/engines/harness.txt requirements/engines/harness_alone.in
"$uv" pip compile --quiet --universal --generate-hashes --no-header --no-annotate --python-version 3.11 --upgrade \
    requirements/engines/harness.in >> requirements/engines/harness.txt
# Engines run on one kind of machine, with a torch that is not in the registry.
if [ -n "${PIP_FIND_LINKS:-}" ]; then
    for engine in transformers vllm training; do
        "$uv" pip compile --quiet --generate-hashes --no-header --no-annotate --python-version 3.11 --upgrade \
            --find-links "$PIP_FIND_LINKS" --override requirements/engines/without.txt \
            --output-file "requirements/engines/$engine.txt" "requirements/engines/$engine.in"
    done
else
    echo "The pins of the engines stay as they are: PIP_FIND_LINKS names no folder with torch for a processor." >&2
fi
