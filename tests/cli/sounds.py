#!/usr/bin/env python3
"""Sound files for tests/cli/transcribe.sh, and what has to be true of its JSON.

sounds.py silence OUT.wav SECONDS           zeros, 16 kHz
sounds.py tone OUT.wav SECONDS              440 Hz, 16 kHz
sounds.py cut IN.wav OUT.wav SECONDS        the first seconds
sounds.py repeat IN.wav OUT.wav TIMES GAP   one after the other, seconds of silence behind each
sounds.py stereo IN.wav OUT.wav             44.1 kHz, two channels whose mean is the sound
sounds.py flac IN.wav OUT.flac              without compression: verbatim subframes
sounds.py check FILE.json SECONDS           segments and windows are in order and inside
"""
import array
import json
import math
import struct
import sys
import wave

RATE = 16000


def read(path):
    with wave.open(path) as w:
        assert (w.getnchannels(), w.getsampwidth(), w.getframerate()) == (1, 2, RATE)
        return array.array("h", w.readframes(w.getnframes()))


def write(path, samples, rate=RATE, channels=1):
    with wave.open(path, "wb") as w:
        w.setnchannels(channels)
        w.setsampwidth(2)
        w.setframerate(rate)
        w.writeframes(array.array("h", samples).tobytes())


def resampled(x, rate):
    """A Hann-windowed sinc of 24 samples on each side; `rate` is above the sound's."""
    half = 24
    for i in range(len(x) * rate // RATE):
        t = i * RATE / rate
        middle = int(t)
        total = 0.0
        for k in range(max(0, middle - half + 1), min(len(x), middle + half + 1)):
            d = t - k
            sinc = math.sin(math.pi * d) / (math.pi * d) if d else 1.0
            total += x[k] * sinc * (0.5 + 0.5 * math.cos(math.pi * d / half))
        yield total


def stereo(x, rate):
    for v in resampled(x, rate):
        left = max(-32768, min(32767, round(v * 0.6)))
        yield left
        yield max(-32768, min(32767, round(2 * v) - left))


def crc(data, bits, polynomial):
    value, top, mask = 0, 1 << (bits - 1), (1 << bits) - 1
    for byte in data:
        value ^= byte << (bits - 8)
        for _ in range(8):
            value = ((value << 1) ^ polynomial if value & top else value << 1) & mask
    return value


def flac(path, x, block=4096):
    info = struct.pack(">HH", block, block) + bytes(6)
    info += ((RATE << 44) | (0 << 41) | (15 << 36) | len(x)).to_bytes(8, "big") + bytes(16)
    with open(path, "wb") as file:
        file.write(b"fLaC" + bytes([0x80, 0, 0, 34]) + info)
        for number, at in enumerate(range(0, len(x), block)):
            part = x[at:at + block]
            head = bytes([0xFF, 0xF8, 0x70, 0x08, number]) + struct.pack(">H", len(part) - 1)
            frame = head + bytes([crc(head, 8, 0x07), 0x02])
            frame += struct.pack(f">{len(part)}h", *part)
            file.write(frame + struct.pack(">H", crc(frame, 16, 0x8005)))
            assert number < 127


def check(path, seconds):
    with open(path, encoding="utf-8") as file:
        result = json.load(file)
    at = 0
    for s in result["segments"]:
        assert at - 1e-9 <= s["start"] <= s["end"] <= seconds + 1e-3, s
        assert s["start"] < seconds and s["tokens"], s
        at = s["start"]
    at = 0
    for w in result["windows"]:
        assert abs(w["start"] - at) < 1e-6 and w["end"] > w["start"], w
        assert 0 <= w["no_speech_prob"] <= 1 and math.isfinite(w["avg_logprob"]), w
        at = w["end"]
    assert 0 <= result["no_speech_prob"] <= 1
    assert result["text"] == "".join(s["text"] for s in result["segments"])
    assert abs(result["duration"] - seconds) < 1e-3, result["duration"]


def main():
    what, *rest = sys.argv[1:]
    if what == "silence":
        write(rest[0], [0] * int(float(rest[1]) * RATE))
    elif what == "tone":
        write(rest[0], [round(8000 * math.sin(2 * math.pi * 440 * i / RATE))
                        for i in range(int(float(rest[1]) * RATE))])
    elif what == "cut":
        write(rest[1], read(rest[0])[:int(float(rest[2]) * RATE)])
    elif what == "repeat":
        silence = array.array("h", [0] * int(float(rest[3]) * RATE))
        write(rest[1], (read(rest[0]) + silence) * int(rest[2]))
    elif what == "stereo":
        write(rest[1], stereo(read(rest[0]), 44100), 44100, 2)
    elif what == "flac":
        flac(rest[1], read(rest[0]))
    elif what == "check":
        check(rest[0], float(rest[1]))
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
