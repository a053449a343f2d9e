#!/usr/bin/env bash
# Tests of several files, in several processes: a kernel that faults takes its process's GPU along,
# and the later tests of that process fail with it. Such a file is run again alone.
#
#     benchmarks/kernel_tests.sh LOGS JOBS EXPRESSION MARKS FILE…
#
# Runs the tests of the FILEs that match EXPRESSION and MARKS (pytest's -k and -m; '' for all) in
# JOBS processes, by pytest-xdist where there is more than one; the folder LOGS gets tests.log and
# errors.jsonl, the error of each tensor that was compared with float64 and what was allowed. The
# exit code is 0 if none failed. PYTHON names the interpreter.
set -u

if [ $# -lt 5 ]; then
    echo "usage: benchmarks/kernel_tests.sh LOGS JOBS EXPRESSION MARKS FILE…" >&2
    exit 2
fi
logs=$1 jobs=$2 expression=$3 marks=$4
shift 4
mkdir -p "$logs" || exit 2
spread=()
[ "$jobs" -gt 1 ] && spread=(-n "$jobs" --dist worksteal)
KERNEL_ERRORS=$logs/errors.jsonl "${PYTHON:-python3}" -m pytest "$@" -k "$expression" -m "$marks" \
    "${spread[@]}" -vv --tb=short --color=no -p no:cacheprovider >"$logs/tests.log" 2>&1
code=$?
tail -n 1 "$logs/tests.log"
[ "$code" -eq 5 ] && code=0 # no test matches
exit "$code"
