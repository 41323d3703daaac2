#!/bin/sh
# Fuzz the compiled receiver with sanitizers: receiver.sh PYTHON SECONDS, where PYTHON has Atheris.
set -eu
python=$1 seconds=$2
package=$PWD/shared/loadgen/vlmhyperbench_loadgen
coverage=$PWD/tests/fuzz/coverage.c
built=$(mktemp -d)
trap 'rm -r "$built"' EXIT
(
    cd "$built"
    gcc -c -g -O1 -Wall -Wextra -Werror -fPIC -fno-omit-frame-pointer -fsanitize=address,undefined \
        -fno-sanitize-recover=undefined -fsanitize-coverage=trace-pc,trace-cmp "$package/receiving.c" "$coverage"
    # Atheris contains the runtime of the sanitizers together with libFuzzer; coverage.c has the coverage counters.
    gcc -shared -Wl,-Bsymbolic-functions -o libreceiving.so ./*.o
)
# Leaks of Python itself at its end are not leaks of the receiver.
ASAN_OPTIONS=detect_leaks=0 PYTHONPATH=.:shared/sdk:shared/loadgen \
    LD_PRELOAD="$("$python" -c 'import atheris; print(atheris.path())')/asan_with_fuzzer.so" \
    "$python" -m tests.fuzz.guided_receiver "$built/libreceiving.so" -max_len=400 -len_control=0 -max_total_time="$seconds"
