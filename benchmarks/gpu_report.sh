#!/usr/bin/env bash
# All measurements that need a GPU, in thirds of at most nine minutes each.
#
#     benchmarks/gpu_report.sh REFERENCE [OUT] [part=1|2|3]
#
# REFERENCE is a checkout of github.com/Leiay/looped_transformer. part=1: tests of the kernels, the
# sparse step beside the reference, its profile, single loops. part=2: the other configurations,
# parity of the losses. part=3: the table of kernels' variants, captured steps by torch.compile.
# Without part: all in turn.
#
# OUT (benchmarks/results/gpu) gets two files, written anew after every part:
#     report.json      of each part its exit code, its seconds and its limit
#     report.tar.gz    every JSON and log (the archive also while a part runs)
# A third replaces its own results in OUT and keeps those of the others. Every part has its own
# limit; one that fails does not stop the others. Exit codes of parts: 0 done, 124 or 137 out of
# time, -1 no time was left for it.
#
# PYTHON names the interpreter, TOTAL the seconds of a third. DEVICE=cpu rehearses all of it at toy
# sizes: tests interpret the kernels, which are compiled but not timed, and a part may take all the
# time that is left of its third.
set -u

fail() {
    echo "benchmarks/gpu_report.sh: $1" >&2
    exit 2
}

thirds="1 2 3" places=()
for word in "$@"; do
    case $word in
        part=1 | part=2 | part=3) thirds=${word#part=} ;;
        part=*) fail "part must be 1, 2 or 3, got '${word#part=}'" ;;
        *) places+=("$word") ;;
    esac
done
usage="usage: benchmarks/gpu_report.sh REFERENCE [OUT] [part=1|2|3]"
[ ${#places[@]} -ge 1 ] && [ ${#places[@]} -le 2 ] || fail "$usage"
[ -d "${places[0]}/scripts" ] || fail "${places[0]} is no checkout of the reference: it holds no scripts/"
reference=$(realpath "${places[0]}")
out=$(realpath -m "${places[1]:-$(dirname "$0")/results/gpu}")
python=${PYTHON:-python3} device=${DEVICE:-cuda} total=${TOTAL:-520}
case $device in cuda | cpu) ;; *) fail "DEVICE must be cuda or cpu, got '$device'" ;; esac
case $total in '' | *[!0-9]*) fail "TOTAL must be a number of seconds, got '$total'" ;; esac
command -v "$python" >/dev/null || fail "there is no '$python': PYTHON must name an interpreter"
mkdir -p "$out" 2>/dev/null && [ -w "$out" ] || fail "$out is no folder that can be written to"
cd "$(dirname "$0")/.." || exit 2
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
[ -f "$out/report.tar.gz" ] && tar -xzf "$out/report.tar.gz" -C "$work" 2>/dev/null
rm -rf "$work"/half* # of a version with two parts

# archive: all files of all thirds into OUT, at once.
archive() {
    tar -czf "$out/.archive" -C "$work" . 2>/dev/null
    [ $? -le 1 ] && mv "$out/.archive" "$out/report.tar.gz" # 1: a log has grown meanwhile
}

# record PART EXIT_CODE SECONDS LIMIT: into both files.
record() {
    printf '{"third": %s, "part": "%s", "exit_code": %s, "seconds": %s, "limit": %s}\n' \
        "$third" "$@" >>"$work/third$third/parts.jsonl"
    cat "$work"/third*/parts.jsonl | sed '1s/^/[\n/; $!s/$/,/; $s/$/\n]/' >"$out/.report"
    mv "$out/.report" "$out/report.json"
    archive
    echo "$1: exit code $2 after $3 s"
}

# stop EXIT_CODE: end the part that runs, after a signal, and keep what it has written.
stop() {
    trap '' INT TERM
    if [ -n "${child:-}" ]; then
        kill "$child" 2>/dev/null # timeout hands it on
        wait "$child"
        record "$name" $? $((SECONDS - start)) "$limit"
    fi
    exit "$1"
}
trap 'stop 130' INT
trap 'stop 143' TERM

# part NAME LIMIT COMMAND…: at most LIMIT of the third's remaining seconds; output goes to NAME.log.
part() {
    local code=-1 saved remaining=$((total + third_start - SECONDS))
    name=$1 limit=$2 start=$SECONDS child=""
    shift 2
    if [ "$device" = cpu ] || [ "$remaining" -lt "$limit" ]; then # a rehearsal goes to the end
        limit=$((remaining > 0 ? remaining : 0))
    fi
    if [ "$limit" -gt 0 ]; then
        PYTHONUNBUFFERED=1 timeout -k 15 "$limit" "$@" >"$results/$name.log" 2>&1 &
        child=$! saved=$SECONDS
        while kill -0 "$child" 2>/dev/null; do
            sleep 0.2
            [ $((SECONDS - saved)) -ge 15 ] && archive && saved=$SECONDS
        done
        wait "$child"
        code=$?
        child=""
    fi
    record "$name" "$code" $((SECONDS - start)) "$limit"
}

# measure NAME LIMIT BENCHMARK WORD…: a part of python -m benchmarks.BENCHMARK.
measure() {
    local name=$1 limit=$2 benchmark=$3 words=() word
    shift 3
    for word in "$@"; do
        [ "$device" = cpu ] && word=$(toy "$word")
        words+=("$word")
    done
    part "$name" "$limit" "$python" -m "benchmarks.$benchmark" "${words[@]}" "json=$results/$name.json"
}

# toy WORD: the same setting for a rehearsal on a CPU.
toy() {
    case $1 in
        config=* | configs=*) echo "${1%%=*}=small" ;;
        backend=*) echo 'backend=cpu' ;;
        variants=*) echo 'variants=[eager:fp32,cpu:fp32]' ;;
        precision=*) echo 'precision=fp32' ;;
        capture=* | compiled_reference=*) echo "${1%%=*}=false" ;;
        pairs=*) echo 'pairs=2' ;;
        limit=*) echo 'limit=60' ;;
        seeds=*) echo 'seeds=1' ;;
        steps=*) echo 'steps=4' ;;
        early=*) echo 'early=[0,2]' ;;
        late=*) echo 'late=[2,4]' ;;
        *) echo "$1" ;;
    esac
}

# tests NAME LIMIT MARKS FILE…: a part of tests.
tests() {
    local name=$1 limit=$2 marks=$3 jobs
    jobs=$(nproc)
    shift 3
    if [ "$device" = cpu ]; then
        export TRITON_INTERPRET=1
        marks='not slow' jobs=1
        [ $# -gt 1 ] && set -- tests/models/kernels/test_gather.py
    fi
    # The workspace: cuBLAS gives the same bits on every stream only with one of fixed size.
    CUBLAS_WORKSPACE_CONFIG=:4096:8 PYTHON=$python part "$name" "$limit" \
        benchmarks/kernel_tests.sh "$results/$name" "$jobs" '' "$marks" "$@"
    unset TRITON_INTERPRET
}

modules() {
    part modules 15 "$python" -c '
import sys
from importlib.util import find_spec
missing = [name for name in sys.argv[1:] if find_spec(name) is None]
print("missing:", ", ".join(missing) or "none")
raise SystemExit(bool(missing))' torch triton numpy yaml safetensors sklearn filelock tqdm pytest xdist
}

# The limits of each third add up to TOTAL at most. In order of worth.
third1() {
    local file kernel_tests=()
    for file in tests/models/kernels/test_*.py; do # test_static needs no GPU
        [ "${file##*/}" = test_static.py ] || kernel_tests+=("$file")
    done
    modules
    tests tests_kernels 100 '' "${kernel_tests[@]}"
    tests tests_graphs 75 'not slow' tests/training/graph/test_cuda.py # slow: torch.compile
    measure step_sparse 150 step configs=sparse "device=$device" "reference=$reference" \
        compiled_reference=true 'backend=[eager,compile,triton]' 'precision=[tf32,bf16]' \
        'capture=[false,true]' pairs=9 limit=100
    measure profile_bf16 40 step configs=sparse "device=$device" backend=triton precision=bf16 \
        capture=true pairs=2 profile=true
    measure profile_tf32 40 step configs=sparse "device=$device" backend=triton precision=tf32 \
        capture=true pairs=2 profile=true
    [ "$device" = cpu ] || measure kernels 60 kernels 'precision=[bf16,tf32]'
}

third2() {
    local config
    modules
    for config in tree linear relu standard; do
        measure "step_$config" 60 step "configs=$config" "device=$device" "reference=$reference" \
            compiled_reference=false 'backend=[compile,triton]' 'precision=[tf32,bf16]' \
            capture=true pairs=5 limit=60
    done
    # The base, which the others are compared with, runs uncaptured.
    measure parity 240 parity config=sparse "device=$device" seeds=3 steps=2000 'late=[1000,2000]' \
        'early=[0,100]' 'variants=[eager:fp32,triton:bf16:graph,triton:tf32:graph]'
}

third3() {
    local task precision words=(scale=paper)
    modules
    [ "$device" = cpu ] && words=(scale=small device=cpu) && export TRITON_INTERPRET=1
    # Sparse and linear functions have one shape, ReLU networks and trees another.
    for task in sparse_linear relu_network; do
        for precision in bf16 tf32; do
            [ "$device" = cpu ] && [ $precision = tf32 ] && precision=fp32
            part "tune_${task}_$precision" 50 env "LOOPLAB_CACHE=$results" \
                "$python" run.py action=tune "task=$task" "precision=$precision" "${words[@]}"
        done
    done
    unset TRITON_INTERPRET
    tests tests_compile 280 slow tests/training/graph/test_cuda.py
}

for third in $thirds; do
    third_start=$SECONDS results=$work/third$third child=""
    rm -rf "$results" && mkdir "$results" || exit 2
    "third$third"
done
