#!/usr/bin/env bash
# Whisper-base on the reference recording, token for token; the same from other files and rates; what
# is silent, short or long; budgets; what is refused.
. tests/cli/common.sh
need_shared models/whisper-base/decoder.pte
model=$shared/models/whisper-base
speech=$model/speech.wav
sentence='The quick brown fox jumps over the lazy dog.'
sounds() { python3 -B tests/cli/sounds.py "$@"; }
hear() { must 0 transcribe -m "$model" -q "$@"; }

# The reference: four forced tokens, those of the text, the end.
python3 - "$model/meta.json" >"$work/want" <<'END'
import json, sys
print(json.dumps(json.load(open(sys.argv[1]))["greedy_tokens"][4:-1], separators=(",", ":")))
END
hear "$speech" --tokens --threads 1
same_files "the reference's tokens" "$work/want" "$work/out"
hear "$speech" --threads 2 --stats "$work/stats.json"
[ "$(cat "$work/out")" = "$sentence" ] || fault "text: $(cat "$work/out")"
[ -s "$work/err" ] && fault "--quiet: $(cat "$work/err")"
check "--stats" checks stats "$work/stats.json"
[ "$(field "$work/stats.json" generated_tokens)" = 10 ] || fault "generated_tokens"
[ "$(field "$work/stats.json" finish_reason)" = stop ] || fault "finish_reason"

# The same sound in other clothes.
sounds flac "$speech" "$work/speech.flac"
hear "$work/speech.flac" --tokens
same_files "FLAC" "$work/want" "$work/out"
hear - --tokens <"$speech"
same_files "standard input" "$work/want" "$work/out"
sounds stereo "$speech" "$work/stereo.wav"
hear "$work/stereo.wav"
[ "$(cat "$work/out")" = "$sentence" ] || fault "44.1 kHz stereo: $(cat "$work/out")"

# Times: within the recording, in order; subtitles.
length=2.965
hear "$speech" --json
check "--json" sounds check "$work/out" $length
hear "$speech" --json --timestamps
check "--json --timestamps" sounds check "$work/out" $length
hear "$speech" --timestamps
grep -qE '^\[00:0[0-9]\.[0-9]{3} --> 00:0[0-9]\.[0-9]{3}\] The quick brown fox' "$work/out" ||
    fault "--timestamps: $(cat "$work/out")"
hear "$speech" --srt
[ "$(head -1 "$work/out")" = 1 ] || fault "--srt: $(cat "$work/out")"
grep -qE '^00:00:0[0-9],[0-9]{3} --> 00:00:0[0-9],[0-9]{3}$' "$work/out" ||
    fault "--srt: $(cat "$work/out")"
hear "$speech" --language auto --json
[ "$(field "$work/out" language)" = en ] || fault "--language auto: $(field "$work/out" language)"

# cases/programs.md L1: nobody speaks, or stops speaking before the window ends.
sounds silence "$work/silence.wav" 12
hear "$work/silence.wav"
[ -s "$work/out" ] && fault "silence: $(cat "$work/out")"
hear "$work/silence.wav" --json --timestamps
check "silence, --json" sounds check "$work/out" 12
sounds tone "$work/tone.wav" 3.85
hear "$work/tone.wav" --json --timestamps
check "a tone" sounds check "$work/out" 3.85
hear "$work/tone.wav"
[ -s "$work/out" ] && fault "a tone: $(cat "$work/out")"
sounds cut "$speech" "$work/short.wav" 0.05
hear "$work/short.wav" --json
check "50 ms" sounds check "$work/out" 0.05

# Longer than a window: nothing is lost at the seam, nothing is said twice.
sounds repeat "$speech" "$work/long.wav" 4 8
hear "$work/long.wav" --json --stats "$work/long.json"
check "4 times" sounds check "$work/out" 43.86
n=$(grep -o 'quick brown fox' "$work/out" | wc -l) # in the text and in the segments
[ "$n" = 8 ] || fault "4 times: $(cat "$work/out")"
check "--stats of two windows" checks stats "$work/long.json"

# The budget: what is planned is what is held; the least is accepted, a byte less is not.
must 0 plan transcribe -m "$model" "$speech" --json --threads 2
cp "$work/out" "$work/plan.json"
planned=$(field "$work/plan.json" planned_peak_bytes)
least=$(field "$work/plan.json" least_bytes)
[ "$planned" = "$(field "$work/stats.json" planned_peak_bytes)" ] || fault "planned, and as run"
for file in stats long; do
    [ "$planned" = "$(field "$work/$file.json" measured_peak_bytes)" ] ||
        fault "$file: planned $planned, measured $(field "$work/$file.json" measured_peak_bytes)"
done
must 0 plan transcribe -m "$model" --threads 2
hear "$speech" --tokens --memory "$least" --threads 2
same_files "at the least budget" "$work/want" "$work/out"
must 1 transcribe -m "$model" "$speech" --memory $((least - 1)) --threads 2
grep -q "needs at least .*($least bytes), the limit is" "$work/err" || fault "refusal: $(cat "$work/err")"

# What cannot be done is said.
must 2 transcribe "$speech"
must 2 transcribe -m "$model"
must 2 transcribe -m "$model" "$speech" --srt --json
must 2 transcribe -m "$model" "$speech" --task sing
must 1 transcribe -m "$model" "$work/nothing.wav"
grep -q nothing.wav "$work/err" || fault "no file: $(cat "$work/err")"
must 1 transcribe -m "$model" "$model/tokenizer.json"
must 1 transcribe -m "$work" "$speech"
grep -q encoder.pte "$work/err" || fault "no model: $(cat "$work/err")"
must 1 transcribe -m "$model" "$speech" --language xx
grep -q '"xx"' "$work/err" || fault "--language xx: $(cat "$work/err")"
mkdir "$work/mixed"
for file in cross_kv.pte decoder.pte tokenizer.json; do
    ln -s "$(realpath "$model/$file")" "$work/mixed/"
done
ln -s "$(realpath "$model/cross_kv.pte")" "$work/mixed/encoder.pte"
must 1 transcribe -m "$work/mixed" "$speech"
grep -q 'encoder.pte: its input' "$work/err" || fault "another program: $(cat "$work/err")"
finish
