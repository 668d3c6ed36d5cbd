#!/usr/bin/env bash
# What a machine with an NVIDIA GPU can prove: `benchmarks/gpu.sh PART [FOLDER]`. PYTHON names an
# interpreter with the extra `cuda`, pytest and PyTorch; results go to FOLDER, at most four files.
# No part needs a network or takes more than 9 minutes.
#
#   first     the GPU, the versions, the smallest proofs (gpu_proofs.py), the backend's own tests
#   tests     every op, its derivatives and every module against the CPU, and the tests of the core
#   sanitize  compute-sanitizer's memcheck and racecheck, where the machine has it and allows it
#   speed     compiled and eager steps against PyTorch, replays against launches, memory, live view
#   fuzz      random calls on the GPU against PyTorch on the CPU (tests/fuzz), a seed per process
#   memory    the memory in use over 5,000 eager training steps
#
# A machine with CuPy may lack nvmath-python and cudnn-frontend. They are brought along:
# `benchmarks/gpu.sh wheels` downloads them to build/gpu-wheels where there is a network, and the
# other parts install them from there, without an index, to build/gpu-packages.
set -uo pipefail
cd "$(dirname "$0")/.."
part=${1:-first} folder=${2:-build/gpu-results} python=${PYTHON:-python3}
wheels=build/gpu-wheels packages=build/gpu-packages
mkdir -p "$folder"
export EDUTORCH_TEST_DEVICES=cpu,cuda EDUTORCH_KERNELS=${EDUTORCH_KERNELS:-beside} PYTHONPATH=.
pytest() {
    timeout -s INT "$1" "$python" -m pytest -q -p no:cacheprovider --tb=short "${@:2}"
}
bring_packages() {
    if ! "$python" -c "import nvmath, cudnn" 2>/dev/null && [ -d "$wheels" ] && [ ! -d "$packages" ]; then
        "$python" -m pip install -q --no-index --no-deps --find-links "$wheels" \
            --target "$packages" nvmath-python nvidia-cudnn-frontend cuda-pathfinder
    fi
    [ -d "$packages" ] && export PYTHONPATH=".:$packages"
    "$python" -c "import nvmath, cudnn" 2>/dev/null ||
        echo "nvmath-python or cudnn-frontend is missing: products and convolutions are CuPy's" >&2
}
run() { # run SECONDS FILE CODE
    timeout -s INT "$1" "$python" -c "$3" 2>&1 | tee -a "$folder/$2"
}
case $part in
wheels)
    mkdir -p "$wheels"
    "$python" -m pip download -q --no-deps --only-binary=:all: -d "$wheels" \
        --python-version "${PYTHON_VERSION:-3.12}" --platform manylinux_2_28_x86_64 \
        nvmath-python==1.0.0 nvidia-cudnn-frontend==1.28.0 cuda-pathfinder
    du -sh "$wheels"
    ;;
first)
    bring_packages
    : >"$folder/first.txt"
    {
        nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader
        git log -1 --format=%h 2>/dev/null
        "$python" -c "import cupy, numpy, torch; print(cupy.__version__, numpy.__version__, torch.__version__)"
    } 2>&1 | tee -a "$folder/first.txt"
    run 120 first.txt "import sys; from benchmarks.gpu_proofs import first; sys.exit(first())"
    pytest 100 -m gpu tests/backends tests/gpu 2>&1 | tee -a "$folder/first.txt"
    ;;
tests)
    bring_packages
    pytest "${SECONDS_OF_TESTS:-400}" -n 10 --maxfail=100000 -k "cuda or the_devices or another_device or twin or test_types" \
        tests/test_every_op.py tests/test_every_op_gradients.py tests/test_every_module.py \
        tests/core tests/test_func.py tests/test_functions.py tests/test_numbers.py \
        tests/test_numbers_in_depth.py tests/test_parts_and_places.py \
        tests/test_results_and_views.py >"$folder/tests.txt" 2>&1
    tail -n 60 "$folder/tests.txt"
    ;;
sanitize)
    bring_packages
    : >"$folder/sanitize.txt"
    sanitizer=${SANITIZER:-$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)}
    if ! "$sanitizer" --version >/dev/null 2>&1; then
        echo "no compute-sanitizer here: not checked" | tee -a "$folder/sanitize.txt"
        exit 3
    fi
    for tool in memcheck racecheck; do
        echo "== $tool" | tee -a "$folder/sanitize.txt"
        timeout -s INT 250 "$sanitizer" --tool "$tool" --error-exitcode 9 \
            "$python" -m pytest -q -p no:cacheprovider -x -m gpu tests/gpu 2>&1 |
            tail -n 40 | tee -a "$folder/sanitize.txt"
    done
    ;;
speed)
    bring_packages
    : >"$folder/speed.txt"
    run 520 speed.txt "from benchmarks.gpu_steps import all_speed; all_speed()"
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
*)
    echo "no part $part: first, tests, sanitize, speed, fuzz, memory or wheels" >&2
    exit 2
    ;;
esac
