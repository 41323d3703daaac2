#!/bin/sh
# Run the tests of the compiled receiver with a library built with gcc's address and undefined-behaviour sanitizers.
set -eu
package=$PWD/shared/loadgen/vlmhyperbench_loadgen
built=$(mktemp -d)
trap 'rm -r "$built"' EXIT
gcc -g -O1 -Wall -Wextra -Werror -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer \
    -shared -fPIC -o "$built/receiver.so" "$package/receiving.c"
# What Python itself leaves behind at its end is not this library's.
ASAN_OPTIONS=detect_leaks=0 VLMHYPERBENCH_RECEIVER_LIBRARY=$built/receiver.so \
    LD_PRELOAD="$(gcc -print-file-name=libasan.so) $(gcc -print-file-name=libubsan.so)" \
    "$1" -m pytest -q -k "not interpreted" \
    tests/loadgen/test_receiving.py tests/loadgen/test_closed_loops.py
