#!/bin/sh
# Install a list of pinned packages, whose hashes are verified, into the environment of images, without what is never
# used there. Usage: pinned.sh LIST [compact]
set -eu
environment=/opt/vlmhyperbench
/tools/bin/uv venv --quiet --python python3 "$environment"
/tools/bin/uv pip install --quiet --link-mode copy --python "$environment/bin/python" --require-hashes -r "$1"

packages=$(echo "$environment"/lib/python3*/site-packages)
# Tests of libraries, sources and types of compiled modules, and what AWS has besides storage.
find "$packages" -type d -name tests -prune -exec rm -rf {} +
find "$packages" -type f \( -name '*.pyi' -o -name '*.pyx' -o -name '*.pxd' -o -name '*.[ch]' -o -name '*.cpp' -o -name '*.a' \) -delete
if [ -d "$packages/botocore/data" ]; then
    find "$packages/botocore/data" -mindepth 1 -maxdepth 1 -type d ! -name s3 ! -name 'sso*' ! -name sts -exec rm -rf {} +
fi
# Symbols that only a debugger reads. Libraries in folders *.libs were changed when they were packed, and stay as they are.
find "$packages" -name '*.so' ! -path '*.libs/*' ! -path '*/xllamacpp/*' -exec strip --strip-unneeded {} +

# Compact: libraries without their sources and docstrings, as Python itself reads them, because Polars alone takes 140 MB
# of the 400 that the image of an API may have; without the decoder of AVIF, which no dataset may contain; without
# what of numpy wraps Fortran or is called by its tests alone; and without the packages of Celery's interactive shell.
if [ "${2:-}" = compact ]; then
    rm -rf "$packages"/numpy/f2py "$packages"/numpy/_core/_simd.*
    rm -rf "$packages"/click_repl* "$packages"/prompt_toolkit* "$packages"/wcwidth*
    rm -f "$packages"/PIL/_avif* "$packages"/pillow.libs/libavif*
    "$environment/bin/python" -m compileall -q -b -o 2 -j 0 "$packages" || true  # some have templates in place of modules
    find "$packages" -name '*.py' -exec sh -c 'for source; do [ ! -e "${source}c" ] || rm "$source"; done' _ {} +
fi
