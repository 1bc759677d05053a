#!/bin/sh
# Runs the command that follows, which is the linker, with versions.ld in place of the compiler's list of exported names.
# That list has no versions. GNU ld takes no second one beside it, and LLD prefers the first.
for argument do
    shift
    case $argument in --version-script=*) argument=--version-script=${0%.sh}.ld ;; esac
    set -- "$@" "$argument"
done
exec "$@"
