#!/bin/sh
# Install a list of pinned packages, whose hashes are verified, into the environment of images, without what is never
# used there. Usage: pinned.sh LIST
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
find "$packages" -name '*.so' -size +1M ! -path '*.libs/*' ! -path '*/xllamacpp/*' -exec strip --strip-unneeded {} +
