[ "$1" = serve ] || exit 0
export LD_PRELOAD="$PRELOAD"
# As root it wants to be told of whom; the memory is more than it gets.
exec "$PROGRAM" -u "$(id -un)" -s "$SOCKET" -m 2048
