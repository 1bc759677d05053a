[ "$1" = serve ] || exit 0
# Debian's server is linked with jemalloc. The C library, preloaded, comes first in the search for malloc.
export LD_PRELOAD="${PRELOAD:-libc.so.6}"
exec "$PROGRAM" --port 0 --unixsocket "$SOCKET" --save '' --appendonly no --jemalloc-bg-thread no
