#!/usr/bin/env python3
"""Writes tests/golden/mel.bin: frames of log-mel spectrograms, computed here by the definition in
float64 with NumPy.

Sounds are made from integers, so that the test makes the same samples: the noise is a linear
congruential sequence, the tone a triangle. A file is rows of
    u32 bins, u32 kind, u32 count (samples), u32 frame, f32 [bins]
"""
import struct
from pathlib import Path

import numpy as np

RATE, N_FFT, HOP, SAMPLES, FRAMES = 16000, 400, 160, 480000, 3000
OUT = Path(__file__).resolve().parent.parent / "tests/golden/mel.bin"


def sound(kind, count):
    if kind == 0:    # noise, louder and louder
        state, x = 12345, np.zeros(count)
        for i in range(count):
            state = (state * 1664525 + 1013904223) % 2**32
            x[i] = (state >> 16) / 32768 - 1
        return (x * np.arange(count) / SAMPLES).astype(np.float32)
    i = np.arange(count)    # a triangle of period 36 samples
    return ((np.abs(i % 36 - 18) / 9 - 1) * 0.25).astype(np.float32)


def hertz_to_mel(f):
    return np.where(f < 1000, f * 3 / 200, 15 + np.log(np.maximum(f, 1) / 1000) * 27 / np.log(6.4))


def mel_to_hertz(m):
    return np.where(m < 15, m * 200 / 3, 1000 * np.exp((m - 15) * np.log(6.4) / 27))


def filters(bins):
    edges = mel_to_hertz(np.linspace(hertz_to_mel(0.0), hertz_to_mel(8000.0), bins + 2))
    f = np.linspace(0, RATE / 2, N_FFT // 2 + 1)
    up = (f - edges[:-2, None]) / (edges[1:-1, None] - edges[:-2, None])
    down = (edges[2:, None] - f) / (edges[2:, None] - edges[1:-1, None])
    return np.maximum(0, np.minimum(up, down)) * 2 / (edges[2:, None] - edges[:-2, None])


def log_mel(samples, bins):
    x = np.zeros(SAMPLES)
    x[:len(samples)] = samples
    x = np.pad(x, N_FFT // 2, mode="reflect")
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(N_FFT) / N_FFT)
    frames = np.lib.stride_tricks.sliding_window_view(x, N_FFT)[::HOP][:FRAMES]
    power = np.abs(np.fft.rfft(frames * hann)) ** 2
    mel = np.log10(np.maximum(filters(bins) @ power.T, 1e-10))
    return (np.maximum(mel, mel.max() - 8) + 4) / 4


def main():
    with OUT.open("wb") as file:
        for bins, kind, count, frames in ((80, 0, SAMPLES, (0, 1, 77, 1500, 2998, 2999)),
                                          (80, 1, 61600, (0, 5, 200, 384, 385, 386, 387, 2999)),
                                          (128, 0, SAMPLES, (0, 1500, 2999)),
                                          (80, 1, 100, (0, 1, 2)), (80, 1, 0, (0, 2999))):
            mel = log_mel(sound(kind, count), bins)
            for t in frames:
                file.write(struct.pack("<4I", bins, kind, count, t))
                file.write(mel[:, t].astype("<f4").tobytes())


if __name__ == "__main__":
    main()
