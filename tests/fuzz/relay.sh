#!/bin/sh
# Fuzz the compiled receiver, watched by sanitizers, for so many seconds: relay.sh PYTHON SECONDS, a Python with Atheris.
set -eu
python=$1 seconds=$2
package=$PWD/shared/loadgen/vlmhyperbench_loadgen
coverage=$PWD/tests/fuzz/coverage.c
built=$(mktemp -d)
trap 'rm -r "$built"' EXIT
(
    cd "$built"
    gcc -c -g -O1 -Wall -Wextra -Werror -fPIC -fno-omit-frame-pointer -fsanitize=address,undefined \
        -fno-sanitize-recover=undefined -fsanitize-coverage=trace-pc,trace-cmp "$package"/*.c "$coverage"
    # What watches is Atheris's, which has libFuzzer too; what counts steps is ours, not libFuzzer's of that name.
    gcc -shared -Wl,-Bsymbolic-functions -o libreceiving.so ./*.o
)
# What Python itself leaves behind at its end is not this library's.
ASAN_OPTIONS=detect_leaks=0 PYTHONPATH=.:shared/sdk:shared/loadgen \
    LD_PRELOAD="$("$python" -c 'import atheris; print(atheris.path())')/asan_with_fuzzer.so" \
    "$python" -m tests.fuzz.guided_relay "$built/libreceiving.so" -max_len=400 -len_control=0 -max_total_time="$seconds"
