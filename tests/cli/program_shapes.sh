#!/usr/bin/env bash
# What programs of real models' shapes may take, planned: Whisper small's encoder in bf16 and f32, and a
# SmolLM2-shaped decoder of 512 tokens. The limits are those that the original's lazy graph misses
# by far (350 MB with its threshold); tools/make_shape_programs.py writes the programs.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
make_program() { python3 -B "$here/../../tools/make_shape_programs.py" "$@"; }
field() { python3 -c 'import json, sys; print(json.load(sys.stdin)[sys.argv[1]])' "$1"; }

at_most() { # file, limit in bytes
    peak=$("$NEAP_BIN" plan run "$work/$1" --json --threads 2 -q | field planned_peak_bytes)
    echo "$1: $peak bytes, at most $2"
    [ "$peak" -le "$2" ] || { echo "FAILED: $1 needs more than $2 bytes"; exit 1; }
    rm "$work/$1"
}

mib=$((1024 * 1024))
make_program whisper --dtype bf16 --d 768 --heads 12 --layers 12 "$work/small_bf16.pte"
at_most small_bf16.pte $((22 * mib))
make_program whisper --dtype f32 --d 768 --heads 12 --layers 12 "$work/small_f32.pte"
at_most small_f32.pte $((48 * mib))
# 3 x (576 + 2 x 1536) x 512 elements of bf16, the buffers of 30 layers, the logits that it returns
make_program decoder "$work/decoder.pte"
states=$((30 * 2 * 512 * 192 * 2)) logits=$((512 * 49152 * 2))
at_most decoder.pte $((3 * (576 + 2 * 1536) * 512 * 2 + states + logits))
