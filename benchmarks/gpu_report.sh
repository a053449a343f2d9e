#!/usr/bin/env bash
# All measurements that need a GPU, in under nine minutes: correctness of the kernels, time of a step,
# its profile, parity of the loss curves.
#
#     benchmarks/gpu_report.sh REFERENCE [OUT]
#
# REFERENCE is a checkout of github.com/Leiay/looped_transformer, OUT the folder that gets the JSON
# and logs (benchmarks/results). Every part has its own limit; one that fails does not stop the others.
# report.json has their exit codes: 0 done, 124 or 137 out of time, -1 no time was left for it.
# PYTHON names the interpreter, TOTAL the seconds for all.
set -u

if [ $# -lt 1 ] || [ ! -d "$1/scripts" ]; then
    echo "usage: benchmarks/gpu_report.sh REFERENCE [OUT]; REFERENCE must hold scripts/" >&2
    exit 2
fi
reference=$(realpath "$1")
out=$(realpath -m "${2:-$(dirname "$0")/results}")
python=${PYTHON:-python3}
total=${TOTAL:-520}
cd "$(dirname "$0")/.." || exit 2
mkdir -p "$out"
parts=""

# part NAME LIMIT COMMAND…: at most LIMIT of the remaining seconds; output goes to OUT/NAME.log.
part() {
    local name=$1 limit=$2 remaining=$((total - SECONDS)) start=$SECONDS code=-1
    shift 2
    [ "$remaining" -lt "$limit" ] && limit=$remaining
    if [ "$limit" -gt 0 ]; then
        PYTHONUNBUFFERED=1 timeout -s INT -k 15 "$limit" "$@" >"$out/$name.log" 2>&1
        code=$?
    fi
    echo "$name: exit code $code after $((SECONDS - start)) s"
    parts="$parts${parts:+,}
  {\"part\": \"$name\", \"exit_code\": $code, \"seconds\": $((SECONDS - start)), \"limit\": $limit}"
    printf '[%s\n]\n' "$parts" >"$out/report.json"
}

# The missing modules; the logs of the parts that need them name them again.
part missing_modules 20 "$python" -c '
from importlib.util import find_spec
names = "torch triton numpy yaml safetensors filelock tqdm pytest".split()
missing = [name for name in names if find_spec(name) is None]
print("missing:", ", ".join(missing) or "none")
raise SystemExit(bool(missing))'

# 1. Without pytest this fails at once and its log says why.
workers=""
"$python" -c 'import xdist' >/dev/null 2>&1 && workers="-n 12"
# shellcheck disable=SC2086  # two words or none
part kernel_tests 120 "$python" -m pytest tests/models/kernels tests/training/graph/test_cuda.py $workers \
    --ignore=tests/models/kernels/test_static.py -v --tb=short -p no:cacheprovider --junitxml="$out/kernel_tests.xml"

# 2. Without torch.compile, which may take long: it comes last.
for config in sparse linear tree relu standard; do
    part "step_$config" 60 "$python" -m benchmarks.step "configs=$config" device=cuda \
        "reference=$reference" 'backend=[eager,triton]' 'capture=[false,true]' \
        pairs=5 "json=$out/step_$config.json"
done

# 3.
for variant in triton:bf16:graph eager:tf32; do
    name=profile_${variant//:/_}
    part "$name" 25 "$python" -m benchmarks.profile_step config=sparse device=cuda \
        "variant=$variant" "json=$out/$name.json"
done

# 4. The base, which the others are compared with, runs uncaptured.
part parity 120 "$python" -m benchmarks.parity config=sparse device=cuda seeds=3 \
    'variants=[eager:fp32,triton:bf16:graph,triton:tf32:graph]' "steps=${STEPS:-2000}" \
    "json=$out/parity.json"

for config in sparse tree linear relu standard; do
    part "step_compile_$config" 90 "$python" -m benchmarks.step "configs=$config" \
        device=cuda "reference=$reference" backend=compile 'capture=[false,true]' \
        "json=$out/step_compile_$config.json"
done
