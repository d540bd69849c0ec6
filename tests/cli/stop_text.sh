#!/usr/bin/env bash
# What ends a text or changes what is chosen: --stop, --repeat-penalty; and --json. What a stopped run prints
# is what the whole run printed, cut before the first of the texts.
. tests/cli/common.sh

base=(generate -m $tiny -p 'Hello there' -n 24 --ignore-eos -q)
must 0 "${base[@]}" && cp "$work/out" "$work/whole"
must 0 "${base[@]}" --json && cp "$work/out" "$work/whole.json"
must 0 "${base[@]}" --tokens && cp "$work/out" "$work/ids"
cat >"$work/check.py" <<'END'
import json, sys
whole = open(sys.argv[1] + "/whole", encoding="utf-8").read()
o = json.load(open(sys.argv[1] + "/whole.json"))
assert o["text"] == whole and o["ids"] == json.load(open(sys.argv[1] + "/ids")), "--json: text or ids"
assert o["finish_reason"] == "length" and o["generated_tokens"] == 24 and "stop" not in o, o
stops = sys.argv[2:]
shown = open(sys.argv[1] + "/out", encoding="utf-8").read()
cuts = [whole.index(s) for s in stops if s in whole]
want = whole[:min(cuts)] if cuts else whole
assert shown == want, f"stops {stops}: {shown!r}, expected {want!r}"
END
stopped() { # TEXT...: each one a --stop
    local options=() text
    for text; do options+=(--stop "$text"); done
    must 0 "${base[@]}" "${options[@]}" --stats "$work/stats.json"
    check "--stop $*" python3 "$work/check.py" "$work" "$@"
}
# The text has " tid-es" of the tokens " tid", "-", "es": within one, across a border, across two, at the
# beginning; the earlier of two; one that never comes, one that begins and does not go on; non-ASCII ones.
stopped 'tid'
[ "$(field "$work/stats.json" finish_reason)" = stop ] || fault "finish_reason of a stopped run"
stopped ' tid'
stopped 'd-'
stopped 'id-es'
stopped 'd-r'
stopped 'tid-q'
[ "$(field "$work/stats.json" finish_reason)" = length ] || fault "finish_reason of a run that nothing stopped"
stopped 'tid-q' 'd-es'
stopped 'd-es' 'tid'
stopped "$(head -c 3 "$work/whole")"
stopped 'nothing like it'
must 0 "${base[@]}" --stop 'd-es' --json
python3 - "$work/out" <<'END' || fault "--json of a stopped run: $(cat "$work/out")"
import json, sys
o = json.load(open(sys.argv[1]))
assert o["finish_reason"] == "stop" and o["stop"] == "d-es" and o["text"].endswith(" ti"), o
assert len(o["ids"]) == o["generated_tokens"] < 24, o
END

refused 2 'neap: --stop: a text of 0 bytes, expected 1 to 1024' "${base[@]}" --stop ''
refused 2 'neap: --stop: a text of 1025 bytes, expected 1 to 1024' "${base[@]}" --stop "$(printf '%01025d' 0)"
refused 1 'neap: stop text 1 is not UTF-8 at byte 1' "${base[@]}" --stop a --stop $'b\xff'
refused 2 'neap: --json and --tokens exclude each other: the object has both text and ids' \
    "${base[@]}" --json --tokens

# A penalty of 1 changes nothing; a large one keeps what came before from coming again.
must 0 "${base[@]}" --repeat-penalty 1 && same_files "a penalty of 1" "$work/out" "$work/whole"
must 0 "${base[@]}" --repeat-penalty 1000 --repeat-last 0 && same_files "looking back 0" "$work/out" "$work/whole"
must 0 "${base[@]}" --repeat-penalty 1000 --tokens
python3 - "$work/out" "$work/ids" <<'END' || fault "--repeat-penalty 1000: $(cat "$work/out")"
import json, sys
ids, plain = (json.load(open(path)) for path in sys.argv[1:])
assert len(set(ids)) == len(ids), f"a token comes twice: {ids}"
assert len(set(plain)) < len(plain), "the plain run repeats nothing: this test shows nothing"
END
refused 2 'neap: --repeat-penalty 0: expected a number from 0.001 to 1000' "${base[@]}" --repeat-penalty 0

# The penalty's memory is planned: the peak is the planned one.
must 0 "${base[@]}" --repeat-penalty 1.1 --repeat-last 65536 --stop tid --stats "$work/stats.json"
[ "$(field "$work/stats.json" planned_peak_bytes)" = "$(field "$work/stats.json" measured_peak_bytes)" ] ||
    fault "planned and measured peak with a penalty"
finish
