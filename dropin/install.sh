#!/bin/sh
# Installs the programs that the drop-in tests run, and those of the command, as far as they are missing. For Debian and its like; needs root.
set -eu

missing=
need() { # COMMAND PACKAGE
    command -v "$1" > /dev/null || missing="$missing $2"
}

need awk mawk
need cmake cmake
need g++ g++
need gcc gcc
need git git
need gzip gzip
need javac default-jdk-headless
need make make
need node nodejs
need objdump binutils
need perl perl
need pkg-config pkgconf
need python3 python3
need redis-benchmark redis-tools
need redis-server redis-server
need setpriv util-linux
need sqlite3 sqlite3
need ssh openssh-client
need /usr/sbin/sshd openssh-server
need tar tar
need tmux tmux
need xz xz-utils

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
