#!/usr/bin/env bash
# What a machine with an NVIDIA GPU can prove: `benchmarks/gpu.sh PART [FOLDER]`. PYTHON names an
# interpreter with the extra `cuda`, pytest and PyTorch; results go to FOLDER.
#
#   first   the GPU, the versions, and the backend's own tests
#   tests   every op, its derivatives and every module against the CPU, and the tests of the core
#   fuzz    random calls on the GPU against PyTorch on the CPU (tests/fuzz), a seed for each process
#   memory  the memory in use over 5,000 training steps
#   speed   training steps against PyTorch's eager mode
set -uo pipefail
cd "$(dirname "$0")/.."
part=${1:-first} folder=${2:-build/gpu} python=${PYTHON:-python3}
mkdir -p "$folder"
export EDUTORCH_TEST_DEVICES=cpu,cuda EDUTORCH_KERNELS=off PYTHONPATH=.
pytest() {
    timeout -s INT "$1" "$python" -m pytest -q -p no:cacheprovider --tb=short "${@:2}"
}
case $part in
first)
    nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader
    "$python" -c "import cupy, numpy, torch; print(cupy.__version__, numpy.__version__, torch.__version__)"
    pytest 120 -m gpu tests/backends 2>&1 | tee "$folder/first.txt"
    ;;
tests)
    pytest "${SECONDS_OF_TESTS:-400}" -n 10 --maxfail=100000 -k "cuda or the_devices or another_device or twin or test_types" \
        tests/test_every_op.py tests/test_every_op_gradients.py tests/test_every_module.py \
        tests/core tests/test_func.py tests/test_functions.py tests/test_numbers.py \
        tests/test_numbers_in_depth.py tests/test_parts_and_places.py \
        tests/test_results_and_views.py >"$folder/tests.txt" 2>&1
    tail -n 60 "$folder/tests.txt"
    ;;
fuzz)
    scratch=$(mktemp -d)
    for seed in $(seq "${PROCESSES:-12}"); do
        EDUTORCH_TEST_DEVICES=cuda "$python" -m tests.fuzz --minutes "${MINUTES:-2}" \
            --seed "$seed" --write "$scratch/$seed.found" >"$scratch/$seed.log" 2>&1 &
    done
    wait
    cat "$scratch"/*.found >"$folder/fuzz.txt"
    tail -qn 40 "$scratch"/*.log >"$folder/fuzz.log"
    grep -h "valid calls\|^findings" "$folder/fuzz.log"
    ;;
memory)
    "$python" -c "from benchmarks.gpu import memory; memory()" 2>&1 | tee "$folder/memory.txt"
    ;;
speed)
    "$python" -m benchmarks gpu 2>&1 | tee "$folder/speed.txt"
    ;;
*)
    echo "no part $part: first, tests, fuzz, memory or speed" >&2
    exit 2
    ;;
esac
