# Files, compressed or through a reverse proxy whose other end is the same server.
case "$1" in
fresh)
    # Its workers would give up root, and could not read the files.
    user=
    [ "$(id -u)" != 0 ] || user='user root;'
    cat > nginx.conf <<END_OF_CONF
$user
# One, since the kernel spreads a few connections over several workers unevenly, and in each run otherwise.
worker_processes 1;
pid $PWD/nginx.pid;
error_log stderr warn;
events { worker_connections 512; }
http {
    access_log off;
    default_type text/plain;
    keepalive_requests 1000000000;
    client_body_temp_path $PWD/body;
    proxy_temp_path $PWD/proxy;
    fastcgi_temp_path $PWD/fastcgi;
    uwsgi_temp_path $PWD/uwsgi;
    scgi_temp_path $PWD/scgi;
    upstream backend { server unix:$PWD/backend; keepalive 16; keepalive_requests 1000000000; }
    server {
        listen unix:$PWD/$SOCKET;
        location /files/ { gzip on; gzip_types text/plain; root $PREPARED; }
        location /proxy/ {
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_pass http://backend/files/;
        }
    }
    server {
        listen unix:$PWD/backend;
        root $PREPARED;
    }
}
END_OF_CONF
    ;;
serve)
    export LD_PRELOAD="$PRELOAD"
    exec "$PROGRAM" -p "$PWD/" -c "$PWD/nginx.conf" -e stderr -g 'daemon off;'
    ;;
esac
