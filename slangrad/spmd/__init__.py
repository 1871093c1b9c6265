"""One thread becomes W SIMD lanes."""
