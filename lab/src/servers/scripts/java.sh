case "$1" in
prepare) javac -d . Shop.java ;;
serve)
    export LD_PRELOAD="$PRELOAD"
    exec "$PROGRAM" -Xmx512m -Dsun.net.httpserver.nodelay=true -cp "$PREPARED" Shop "$PORT"
    ;;
esac
