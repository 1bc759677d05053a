#!/bin/sh
# Installs the programs that the drop-in tests run, and those of the command, as far as they are missing. For Debian and its like; needs root.
set -eu

# Commands, each with its package.
needed="awk:mawk clang:clang cmake:cmake g++:g++ gcc:gcc gdb:gdb git:git go:golang-go groff:groff-base gzip:gzip javac:default-jdk-headless make:make node:nodejs
objdump:binutils perl:perl pkg-config:pkgconf python3:python3 redis-benchmark:redis-tools redis-server:redis-server
sqlite3:sqlite3 ssh:openssh-client /usr/sbin/sshd:openssh-server tar:tar tmux:tmux xz:xz-utils"
missing=
for pair in $needed; do
    command -v "${pair%:*}" > /dev/null || missing="$missing ${pair#*:}"
done

install() { # PACKAGE...
    apt-get update
    DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@"
}

# The names are separate words.
# shellcheck disable=SC2086
[ -z "$missing" ] || install $missing
# Named by the version, which is known only now: not every release has the package that is named after the latest.
if ! /usr/bin/python3 -c 'import test.test_list' 2> /dev/null; then
    install "libpython$(/usr/bin/python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')-testsuite"
fi
echo "all programs are installed"
