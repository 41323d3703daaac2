#!/bin/sh
# Run a command that trusts the certificate authorities of the build's secret `ca`, where there is one.
if [ -s /run/secrets/ca ]; then
    export PIP_CERT=/run/secrets/ca SSL_CERT_FILE=/run/secrets/ca
fi
exec "$@"
