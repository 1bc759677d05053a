# redis-server under redis-benchmark, at a socket in the working folder; with background saves,
# which fork, and threads for input and output. What the benchmark measures is not printed, what is stored is.

redis-server --port 0 --unixsocket redis.socket --dir "$PWD" --save '' --daemonize no --io-threads 2 \
    --io-threads-do-reads yes --enable-debug-command local > server.log 2>&1 &
server=$!
trap 'kill $server 2>/dev/null || true' EXIT

cli() {
    redis-cli -s redis.socket "$@"
}

tries=0
until [ "$(cli ping 2>/dev/null)" = PONG ]; do
    tries=$((tries + 1))
    [ $tries -lt 12000 ] || { cat server.log >&2; exit 1; }
    sleep 0.05
done

redis-benchmark -s redis.socket -q -n 2000 -c 20 -P 4 -r 1000 -d 200 --threads 2 \
    -t ping,set,get,incr,lpush,rpush,lpop,sadd,hset,zadd,lrange_100,mset > benchmark.log 2>&1
tr '\r' '\n' < benchmark.log | grep -c 'requests per second, p50'
cli flushall

awk 'BEGIN {
    for (i = 0; i < 10000; i++) {
        printf "SET key:%d %s\r\n", i % 3000, sprintf("%0" (i % 400 + 1) "d", i)
        printf "RPUSH list:%d item%d\r\n", i % 50, i
        printf "HSET hash:%d field%d %d\r\n", i % 70, i % 333, i
        printf "ZADD set:%d %d member%d\r\n", i % 30, i, i % 555
        if (i % 5 == 0) printf "DEL key:%d\r\n", (i * 7) % 3000
    }
}' | cli --pipe | tail -n 1
cli dbsize
cli debug digest
cli bgsave > /dev/null
while [ "$(cli info persistence | tr -d '\r' | sed -n 's/rdb_bgsave_in_progress://p')" != 0 ]; do sleep 0.05; done
cli info persistence | tr -d '\r' | grep rdb_last_bgsave_status
cli debug reload
cli debug digest
cli memory purge
cli shutdown nosave || true
status=0
wait $server || status=$?
echo "redis-server ended with status $status"
