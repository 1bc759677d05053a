#!/bin/sh
# One part of a forecast and of an exploration, as any batch engine may start it: shard.sh I N DIRECTORY.
#
# COMMENSAL and COMMENSAL_EXPLORE say where the two commands are, PROFILE whose costs are simulated, RUNS how many runs of each protocol there are in all parts.
# A part that is made again is the same again, so an engine may do so as often as it likes.
set -eu
index=$1 of=$2 directory=$3
commensal=${COMMENSAL:-commensal} explore=${COMMENSAL_EXPLORE:-commensal-explore}

mkdir -p "$directory"
"$commensal" lab forecast --profile "${PROFILE:-x86-256}" --shard "$index/$of" --json "$directory/forecast-$index.json"
"$explore" run --runs "${RUNS:-100000}" --seed 1 --shard "$index/$of" --json "$directory/exploration-$index.json"
