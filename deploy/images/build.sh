#!/bin/sh
# Build the images of all services from the checkout in which this lies. Usage: build.sh [TAG]
# Variables: BASE_IMAGE (with Python, see Dockerfile), IMAGES (beginning of their names), CA (file of certificate
# authorities that the index needs while building), BUILD_ARGS (further arguments of `docker build`).
set -eu
cd "$(dirname "$0")/../.."
tag=${1:-latest}
if ! docker version >/dev/null 2>&1; then
    echo "images: Docker does not answer. Install Docker Engine and its plugin buildx, and start the daemon." >&2
    exit 3
fi
set -- ${BUILD_ARGS:-}
[ -z "${BASE_IMAGE:-}" ] || set -- "$@" --build-arg "BASE_IMAGE=$BASE_IMAGE"
[ -z "${CA:-}" ] || set -- "$@" --secret "id=ca,src=$CA"
for service in api scheduler inference-worker eval-worker reporter; do
    image="${IMAGES:-vlmhyperbench}-$service:$tag"
    DOCKER_BUILDKIT=1 docker build --quiet --file deploy/images/Dockerfile --target "$service" --tag "$image" "$@" . >/dev/null
    echo "$image: $(docker image inspect --format '{{.Size}}' "$image" | awk '{printf "%d MB", $1 / 1000000}')"
done
