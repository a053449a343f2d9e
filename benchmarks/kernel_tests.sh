#!/usr/bin/env bash
# Tests, each file in a process of its own: a kernel that faults takes along the tests of its file
# alone.
#
#     benchmarks/kernel_tests.sh LOGS JOBS EXPRESSION MARKS FILE…
#
# Runs the tests of each FILE that match EXPRESSION and MARKS (pytest's -k and -m; '' for all), JOBS
# files at once; the folder LOGS gets a log for each file. The exit code is 0 if none failed. PYTHON names the
# interpreter.
set -u

if [ $# -lt 5 ]; then
    echo "usage: benchmarks/kernel_tests.sh LOGS JOBS EXPRESSION MARKS FILE…" >&2
    exit 2
fi
export logs=$1 jobs=$2 expression=$3 marks=$4
shift 4
mkdir -p "$logs" || exit 2

one() {
    "${PYTHON:-python3}" -m pytest "$1" -k "$expression" -m "$marks" -vv --tb=short --color=no \
        -p no:cacheprovider >"$logs/$(basename "$1" .py).log" 2>&1
    local code=$?
    [ "$code" -eq 5 ] && code=0 # none of its tests matches
    echo "$1: exit code $code"
    [ "$code" -eq 0 ]
}
export -f one
printf '%s\0' "$@" | xargs -0 -n 1 -P "$jobs" bash -c 'one "$1"' bash
