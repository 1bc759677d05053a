# A server on the arm's allocator, driven over a socket by redis-benchmark on the C library's.
[ "$1" = run ] || exit 0
# Debian's server is linked with jemalloc. The C library, preloaded, comes first in the search for malloc.
preload=${LD_PRELOAD:-libc.so.6}
unset LD_PRELOAD
LD_PRELOAD=$preload "$PROGRAM" --port 0 --unixsocket redis.sock --save '' --appendonly no --jemalloc-bg-thread no > log &
server=$!
trap 'kill $server 2> /dev/null || true' EXIT
until redis-cli -s redis.sock ping > answer 2>&1; do
    kill -0 $server || { cat log >&2; exit 1; }
done
redis-benchmark -s redis.sock -q -P 16 -d 64 -r 100000 -n 50000 -t set,get,lpush,lpop,hset,zadd > rates
redis-cli -s redis.sock llen mylist
redis-cli -s redis.sock shutdown nosave > answer
wait $server
