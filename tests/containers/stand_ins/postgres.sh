#!/bin/sh
# Start as the official image of Postgres does: an empty folder becomes a cluster with the account of the environment.
set -eu
as_postgres() { setpriv --reuid=999 --regid=999 --clear-groups -- "$@"; }
if [ ! -s "$PGDATA/PG_VERSION" ]; then
    chown 999:999 "$PGDATA"
    as_postgres initdb --pgdata="$PGDATA" --username="$POSTGRES_USER" --pwfile="$POSTGRES_PASSWORD_FILE" \
        --auth-local=trust --auth-host=scram-sha-256 --encoding=UTF8 --locale=C >/dev/null
    echo 'host all all all scram-sha-256' >>"$PGDATA/pg_hba.conf"
    as_postgres pg_ctl --pgdata="$PGDATA" --options="-c listen_addresses= -k /tmp" --wait start >/dev/null
    as_postgres createdb --host=/tmp --username="$POSTGRES_USER" "$POSTGRES_DB"
    as_postgres pg_ctl --pgdata="$PGDATA" --wait stop >/dev/null
fi
exec setpriv --reuid=999 --regid=999 --clear-groups -- "$@" -k /tmp -c 'listen_addresses=*'
