[ "$1" = serve ] || exit 0
export LD_PRELOAD="$PRELOAD"
exec "$PROGRAM" "$SOCKET"
