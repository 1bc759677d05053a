#!/bin/sh
#SBATCH --job-name=commensal
#SBATCH --array=1-16
#SBATCH --cpus-per-task=4
#SBATCH --time=01:00:00
#SBATCH --output=commensal-%a.log
#
# Submit from this folder, on a file system that all nodes share; then, when all parts are there, join them:
#
#   sbatch --wait slurm-array.sh
#   commensal lab merge parts/forecast-*.json --report report/
#   commensal lab merge parts/exploration-*.json
set -eu
cd "${SLURM_SUBMIT_DIR:-.}"
sh "${COMMENSAL_CLUSTER:-.}/shard.sh" "$SLURM_ARRAY_TASK_ID" "$SLURM_ARRAY_TASK_COUNT" "${PARTS:-parts}"
