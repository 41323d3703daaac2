#!/usr/bin/env bash
# Install what the tests of containers need on a Debian machine, as root: Docker with a running daemon, Apptainer, an
# image that holds Python alone, made without any registry of images, and servers that speak TLS. Usage: install.sh FOLDER
set -euo pipefail
room=$1
mkdir -p "$room"
say() { echo "containers: $*" >&2; }
[ "$(id -u)" = 0 ] || { say "not root: nothing is installed, and the tests are skipped where something is missing."; exit 0; }

missing=()
for program in dockerd:docker.io debootstrap iptables ip:iproute2 mksquashfs:squashfs-tools patchelf; do
    command -v "${program%%:*}" >/dev/null || missing+=("${program##*:}")
done
if [ ${#missing[@]} -gt 0 ]; then
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
fi

if ! docker info >/dev/null 2>&1; then
    nohup dockerd --pidfile "$room/dockerd.pid" >"$room/dockerd.log" 2>&1 &
    for _ in $(seq 600); do docker info >/dev/null 2>&1 && break; sleep 0.1; done
    docker info >/dev/null || { tail -n 20 "$room/dockerd.log" >&2; say "Docker's daemon does not start here."; exit 1; }
fi

if [ ! -e "$room/base.tar" ] || ! docker image inspect vlmhyperbench-base:latest >/dev/null 2>&1; then
    made=$(mktemp -d); trap 'rm -rf "$made"' EXIT
    debootstrap --variant=minbase --include=python3 bookworm "$made" >"$room/debootstrap.log"
    rm -rf "$made"/var/cache/apt/* "$made"/var/lib/apt/lists/* "$made"/usr/share/{doc,locale,man}/*
    tar -C "$made" -c . | docker import - vlmhyperbench-base:latest >/dev/null
    docker save vlmhyperbench-base:latest -o "$room/base.tar"
fi

# Debian 12 has no Apptainer: that of a newer suite runs with the C library of that suite, apart from the system's.
if ! command -v apptainer >/dev/null; then
    suite=$(mktemp -d)
    mkdir -p "$suite"/{lists/partial,cache/archives/partial,debs,unpacked}
    mirror=$(sed -n 's/^URIs: *//p' /etc/apt/sources.list.d/debian.sources | head -n 1)
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror sid main" >"$suite/sources.list"
    apt=(apt-get -o "Dir::Etc::sourcelist=$suite/sources.list" -o Dir::Etc::sourceparts=- -o "Dir::State::lists=$suite/lists"
        -o "Dir::Cache=$suite/cache" -o APT::Sandbox::User=root)
    "${apt[@]}" update -qq
    (cd "$suite/debs" && "${apt[@]}" download -qq apptainer libc6 libseccomp2 libsqlite3-0)
    for package in libc6 libseccomp2 libsqlite3-0; do dpkg -x "$suite/debs/${package}"_*.deb /opt/apptainer-libs; done
    dpkg -x "$suite"/debs/apptainer_*.deb /
    mkdir -p /var/lib/apptainer/mnt/session
    libraries=/opt/apptainer-libs/usr/lib/x86_64-linux-gnu
    for program in /usr/bin/apptainer /usr/lib/x86_64-linux-gnu/apptainer/bin/starter; do
        patchelf --set-interpreter $libraries/ld-linux-x86-64.so.2 --force-rpath --set-rpath $libraries $program
    done
    # A machine without systemd, whose root has not every right:
    sed -i 's/^root default capabilities.*/root default capabilities = no/; s/^systemd cgroups.*/systemd cgroups = no/' \
        /etc/apptainer/apptainer.conf
    rm -rf "$suite"
fi
# The plugins of Docker that this suite lacks; they need nothing of a newer one.
if ! docker compose version >/dev/null 2>&1 || ! docker buildx version >/dev/null 2>&1; then
    suite=$(mktemp -d)
    mkdir -p "$suite"/{lists/partial,cache/archives/partial,debs}
    mirror=$(sed -n 's/^URIs: *//p' /etc/apt/sources.list.d/debian.sources | head -n 1)
    for newer in trixie sid; do
        echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $newer main"
    done >"$suite/sources.list"
    apt=(apt-get -o "Dir::Etc::sourcelist=$suite/sources.list" -o Dir::Etc::sourceparts=- -o "Dir::State::lists=$suite/lists"
        -o "Dir::Cache=$suite/cache" -o APT::Sandbox::User=root)
    "${apt[@]}" update -qq
    (cd "$suite/debs" && "${apt[@]}" download -qq docker-compose/trixie docker-buildx/sid)
    for package in docker-compose docker-buildx; do dpkg -x "$suite/debs/${package}"_*.deb "$suite/unpacked"; done
    mkdir -p /usr/libexec/docker/cli-plugins
    cp "$suite"/unpacked/usr/libexec/docker/cli-plugins/* /usr/libexec/docker/cli-plugins/
    rm -rf "$suite"
fi
# Servers that speak TLS themselves, which those of the wheels do not, and those of the profiles of compose.yaml; unpacked,
# so that nothing of them is started.
if [ ! -e "$room/servers/usr/bin/caddy" ]; then
    apt-get update -qq
    (mkdir -p "$room/debs" && cd "$room/debs" && apt-get -o APT::Sandbox::User=root download -qq \
        postgresql-15 redis-server redis-tools libjemalloc2 liblzf1 libpq5 libllvm14 libz3-4 libxslt1.1 \
        caddy prometheus)
    for package in "$room"/debs/*.deb; do dpkg -x "$package" "$room/servers"; done
    rm -rf "$room/debs"
fi
say "$(docker --version); $(apptainer --version)"
