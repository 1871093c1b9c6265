"""C by hand for AVX-512 (c_simd.c): no peer, but what an ideal compiler could emit. Needs such a machine, and gcc."""

from __future__ import annotations

from pathlib import Path

from handwritten import Handwritten, build, version

FLAGS = ["-march=native", "-mprefer-vector-width=512", "-ffast-math"]
NEEDED = {"avx512f", "avx512dq", "avx512bw", "avx512vl"}

missing = NEEDED.difference(Path("/proc/cpuinfo").read_text().split())
if missing:
    raise ImportError("this machine has no AVX-512; cavx2 is the same for AVX2")

INFO = version()
c = Handwritten(build("c_simd.c", FLAGS))
W1, W2, W3, W4, W5a, W5b, W6, W7c, W8 = c.w1, c.w2, c.w3, c.w4, c.w5a, c.w5b, c.w6, c.w7c, c.w8
W9 = Handwritten(build("c_texture.c", FLAGS)).w9
