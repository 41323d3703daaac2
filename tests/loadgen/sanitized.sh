#!/bin/sh
# Run the tests of the compiled receiver with a library that gcc watches for what C lets happen.
set -eu
package=shared/loadgen/vlmhyperbench_loadgen
library=$package/libreceiving.so
kept=$(mktemp)
cp "$library" "$kept"
trap 'cp "$kept" "$library"; rm "$kept"' EXIT
gcc -g -O1 -Wall -Wextra -Werror -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer \
    -shared -fPIC -o "$library" "$package/receiving.c" "$package/relaying.c"
# What Python itself leaves behind at its end is not this library's.
ASAN_OPTIONS=detect_leaks=0 LD_PRELOAD="$(gcc -print-file-name=libasan.so) $(gcc -print-file-name=libubsan.so)" \
    "$1" -m pytest -q -k "not interpreted" \
    tests/loadgen/test_receiving.py tests/loadgen/test_relay.py tests/loadgen/test_closed_loops.py
