#!/bin/sh
# Run the tests of the compiled receiver with a library built with gcc's address and undefined-behaviour sanitizers.
set -eu
package=$PWD/shared/loadgen/vlmhyperbench_loadgen
built=$(mktemp -d)
trap 'rm -r "$built"' EXIT
gcc -g -O1 -Wall -Wextra -Werror -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer \
    -shared -fPIC -o "$built/receiver.so" "$package/receiving.c"
# Leaks of Python itself at its end are not leaks of the receiver.
ASAN_OPTIONS=detect_leaks=0 VLMHYPERBENCH_RECEIVER_LIBRARY=$built/receiver.so \
    LD_PRELOAD="$(gcc -print-file-name=libasan.so) $(gcc -print-file-name=libubsan.so)" \
    "$1" -m pytest -q -k "not interpreted" \
    tests/loadgen/test_receiving.py tests/loadgen/test_closed_loops.py
