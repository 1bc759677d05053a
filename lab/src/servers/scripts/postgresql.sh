# A database of pgbench's tables. The server refuses root, so root hands all to another user.
programs=${PROGRAM%/*}
as_user=
if [ "$(id -u)" = 0 ]; then
    user=postgres
    id -u "$user" > user 2>&1 || user=nobody
    as_user="setpriv --reuid=$user --regid=$(id -g "$user") --clear-groups"
    chown "$user" .
fi
# The words of $as_user are apart.
# shellcheck disable=SC2086
case "$1" in
prepare)
    $as_user "$programs/initdb" -D data -U postgres -A trust --locale=C -E UTF8 --no-sync > log
    $as_user "$programs/pg_ctl" -D data -w -l server.log -o "-k '$PWD' -c listen_addresses= -c fsync=off" start > log
    "$programs/pgbench" -h "$PWD" -U postgres -i -q -s 4 postgres > log 2>&1
    $as_user "$programs/pg_ctl" -D data -w -m fast stop > log
    cat > report.sql <<'END_OF_SQL'
\set low random(1, 399000)
SELECT json_agg(a ORDER BY abalance, aid DESC) FROM pgbench_accounts a WHERE aid BETWEEN :low AND :low + 300;
END_OF_SQL
    ;;
fresh)
    $as_user cp -a "$PREPARED/data" data
    # The user may not reach the library where it is.
    [ -z "$PRELOAD" ] || cp "$PRELOAD" library.so
    [ -z "$PRELOAD" ] || chmod 755 library.so
    ;;
serve)
    [ -z "$PRELOAD" ] || PRELOAD=$PWD/library.so
    # A disk's times and its background work would be in the figures.
    exec $as_user env LD_PRELOAD="$PRELOAD" "$PROGRAM" -D data -k "$PWD" -c listen_addresses= -c shared_buffers=64MB \
        -c fsync=off -c synchronous_commit=off -c full_page_writes=off -c autovacuum=off -c max_wal_size=4GB
    ;;
esac
