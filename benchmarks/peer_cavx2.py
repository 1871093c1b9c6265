"""C by hand for AVX2 and FMA (c_avx2.c): what a good compiler could emit on a machine without AVX-512. Needs gcc."""

from __future__ import annotations

from pathlib import Path

from handwritten import Handwritten, build, version

FLAGS = ["-march=x86-64-v3", "-mtune=native", "-fno-math-errno"]
CANNOT = {"W6": "not written for AVX2"}

if {"avx2", "fma"}.difference(Path("/proc/cpuinfo").read_text().split()):
    raise ImportError("this machine has no AVX2")

INFO = version()
c = Handwritten(build("c_avx2.c", FLAGS))
W1, W2, W3, W4, W5a, W5b, W7c, W8 = c.w1, c.w2, c.w3, c.w4, c.w5a, c.w5b, c.w7c, c.w8
W9 = Handwritten(build("c_texture.c", FLAGS)).w9
