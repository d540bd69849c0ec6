#!/usr/bin/env bash
# Neap beside llama.cpp: prompt and generation speed, and the time to load, as medians and ratios.
#
# peers.sh [--rounds 3] [--threads 2] [--all] [MODEL.gguf ...]
# Without a model: SmolLM2 Q4_1. --all adds it requantised to Q4_0, Q8_0 and Q4_K_M, and a
# random-weight model of hidden 1024 in Q4_K_M, made on first use in .models/peers/. Each round runs every
# program once on every model, one after the other, so that a slow moment hits all alike; a round
# before the first is thrown away. llama.cpp comes by $NEAP_SHARED/peers/setup.sh (default
# ../shared) into .peers/. NEAP names another command than build/release/neap.
# The ratios hold on an idle machine only: on a busy one llama.cpp's threads, which wait by spinning,
# lose far more than Neap's. So what others use of the processors is measured before each run, and
# the table says when it was too much.
set -euo pipefail
cd "$(dirname "$0")/.."

rounds=3 threads=2 all=no models=()
while [ $# -gt 0 ]; do
    case $1 in
        --rounds) rounds=$2; shift 2 ;;
        --threads) threads=$2; shift 2 ;;
        --all) all=yes; shift ;;
        -h | --help) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;;
        -*) echo "peers.sh: unknown option $1" >&2; exit 2 ;;
        *) models+=("$1"); shift ;;
    esac
done
shared=$(realpath "${NEAP_SHARED:-../shared}")/peers
neap=${NEAP:-build/release/neap}
python=.peers/bin/python
for need in "$shared/setup.sh" "$shared/llama_speed.py" "$neap"; do
    [ -e "$need" ] || { echo "peers.sh: $need is absent" >&2; exit 77; }
done

# Everything this processor has but AMX, which a build for the native processor would use and which
# some systems forbid: there the first matrix product ends in SIGILL.
rebuild_without_amx() {
    local flags option arguments="-DGGML_NATIVE=OFF"
    flags=" $(grep -m1 '^flags' /proc/cpuinfo) "
    for option in sse4_2:SSE42 avx:AVX avx2:AVX2 fma:FMA f16c:F16C bmi2:BMI2 avx_vnni:AVX_VNNI \
        avx512f:AVX512 avx512vbmi:AVX512_VBMI avx512_vnni:AVX512_VNNI avx512_bf16:AVX512_BF16; do
        [[ $flags == *" ${option%%:*} "* ]] && arguments+=" -DGGML_${option##*:}=ON"
    done
    echo "peers.sh: llama.cpp dies of an illegal instruction; building it again without AMX" >&2
    CMAKE_ARGS=$arguments "$python" -m pip install -q --force-reinstall --no-deps --no-cache-dir \
        --no-binary llama-cpp-python llama-cpp-python
}

peer_speed() { "$python" "$shared/llama_speed.py" "$1" --threads "$threads" --repeat 1 "${@:2}"; }

prepare_peer() {
    local status=0
    "$python" -c 'import importlib.util as u, sys; sys.exit(not u.find_spec("llama_cpp"))' 2>/dev/null ||
        "$shared/setup.sh" .peers llama
    peer_speed "$1" --pp 64 --tg 1 >/dev/null 2>&1 || status=$?
    if [ $status -eq 132 ]; then
        rebuild_without_amx
        status=0
        peer_speed "$1" --pp 64 --tg 1 >/dev/null || status=$?
    fi
    [ $status -eq 0 ] || { echo "peers.sh: llama.cpp fails on $1 (status $status)" >&2; exit 1; }
}

# FROM TYPE TO; made once
requantised() { [ -f "$3" ] || "$python" -B tools/requantise.py "$1" "$3" "$2" >&2; }

make_all() {
    mkdir -p .models/peers
    local type random=.models/peers/random-1024
    for type in Q4_0 Q8_0 Q4_K_M; do
        requantised "$1" $type ".models/peers/SmolLM2-135M-Instruct.$type.gguf"
        models+=(".models/peers/SmolLM2-135M-Instruct.$type.gguf")
    done
    if [ ! -f $random.Q4_K_M.gguf ]; then
        "$python" -c 'import gguf' 2>/dev/null || "$python" -m pip install -q gguf
        "$python" -B tools/make_random_llama.py "$1" $random.F16.gguf
        requantised $random.F16.gguf Q4_K_M $random.Q4_K_M.gguf
        rm -f $random.F16.gguf
    fi
    models+=("$random.Q4_K_M.gguf")
}

# Seconds from opening the file to the first new token: llama.cpp within a running Python, Neap as a
# whole process.
peer_load() {
    "$python" - "$1" "$threads" <<'END'
import json, sys, time
from llama_cpp import Llama
t = time.perf_counter()
llm = Llama(sys.argv[1], n_ctx=256, n_threads=int(sys.argv[2]), n_threads_batch=int(sys.argv[2]), verbose=False)
llm.eval(llm.tokenize(b"Once"))
llm.sample(temp=0)
print(json.dumps({"load_seconds": time.perf_counter() - t}))
END
}
neap_load() {
    local start end
    start=$(date +%s%N)
    "$neap" generate -m "$1" -p Once -n 1 -c 256 --threads "$threads" --quiet "${@:2}" >/dev/null
    end=$(date +%s%N)
    echo "{\"load_seconds\": $(((end - start) / 1000))e-6}"
}
neap_speed() {
    "$neap" bench -m "$1" --pp 512 --tg 64 --repeat 1 --threads "$threads" --json "${@:2}"
}

smollm2=.models/SmolLM2-135M-Instruct.Q4_1.gguf
[ ${#models[@]} -gt 0 ] || models=("$smollm2")
[ -f "$smollm2" ] || tools/get_model.sh
prepare_peer "${models[0]}"
[ $all = no ] || make_all "$smollm2"

# Percent of the processors in use during a third of a second in which nothing here runs.
busy_percent() {
    local before after
    read -ra before </proc/stat
    sleep 0.3
    read -ra after </proc/stat
    local i total=0 idle=$((after[4] + after[5] - before[4] - before[5]))
    for i in {1..8}; do total=$((total + after[i] - before[i])); done
    echo $((total > 0 ? 100 - 100 * idle / total : 0))
}

results=$(mktemp)
trap 'rm -f "$results"' EXIT
record() { # ROUND MODEL PROGRAM COMMAND…
    local output busy
    busy=$(busy_percent)
    output=$("${@:4}")
    [ "$1" -eq 0 ] || printf '%s\tmachine\t{"busy": %d}\n' "$2" "$busy" >>"$results"
    [ "$1" -eq 0 ] || printf '%s\t%s\t%s\n' "$2" "$3" "$output" >>"$results"
}
for ((round = 0; round <= rounds; round++)); do
    for model in "${models[@]}"; do
        record $round "$model" llama.cpp peer_speed "$model"
        record $round "$model" repacked neap_speed "$model" --weights repacked
        record $round "$model" mapped neap_speed "$model" --weights mapped
        record $round "$model" llama.cpp peer_load "$model"
        record $round "$model" repacked neap_load "$model" --weights repacked
        record $round "$model" mapped neap_load "$model" --weights mapped
    done
    echo "peers.sh: round $round of $rounds" >&2
done

python3 - "$results" "$threads" "$rounds" <<'END'
import json, os, statistics, sys
from collections import defaultdict

FIGURES = [("prompt_tokens_per_second", "prompt 512, tokens/s", False),
           ("generation_tokens_per_second", "generation 64, tokens/s", False),
           ("load_seconds", "load + 1 token, s", True)]
BUSY_LIMIT = 5
samples = defaultdict(list)
for line in open(sys.argv[1]):
    model, program, output = line.rstrip("\n").split("\t")
    for key, value in json.loads(output).items():
        samples[model, program, key].append(value)
busy = [b for (_, p, _), values in samples.items() if p == "machine" for b in values]
print(f"others used {statistics.median(busy):.0f} % of the processors (median), {max(busy):.0f} % at most")
if statistics.median(busy) > BUSY_LIMIT:
    print("NOT A COMPARISON: the machine was busy, these ratios favour Neap; repeat when it is idle")
print(f"{sys.argv[2]} threads, medians of {sys.argv[3]} rounds; ratio: how many times as fast as llama.cpp")
print(f"{'model':34} {'figure':24} {'llama.cpp':>10} {'repacked':>10} {'ratio':>6} {'mapped':>10} {'ratio':>6}")
for model in dict.fromkeys(m for m, _, _ in samples):
    for key, title, less_is_faster in FIGURES:
        peer, repacked, mapped = (statistics.median(samples[model, p, key])
                                  for p in ("llama.cpp", "repacked", "mapped"))
        ratio = lambda x: peer / x if less_is_faster else x / peer
        print(f"{os.path.basename(model):34} {title:24} {peer:10.4g} {repacked:10.4g} "
              f"{ratio(repacked):6.2f} {mapped:10.4g} {ratio(mapped):6.2f}")
END
