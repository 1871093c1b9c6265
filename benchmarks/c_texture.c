// W9 by hand: bilinear samples of float4 texels, with all modes of addresses, and their gradients by texels. Texels are
// vectors of four floats; places are computed for sixteen samples at once. OpenMP.
#include <immintrin.h>
#include <omp.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define L 16
typedef float F4 __attribute__((vector_size(16)));

enum { WRAP, CLAMP, BORDER, MIRROR, MIRROR_ONCE };

// The texel that an index means; -1 for the border. The mode is the same for all samples, so the switch is outside of loops.
static inline __attribute__((always_inline)) int element(int index, int size, int mode) {
  int period = mode == MIRROR ? 2 * size : size;
  int turn = index - period * (int)floorf((float)index / (float)period);
  int last = size - 1;
  if (mode == WRAP) return turn;
  if (mode == MIRROR) return turn < size ? turn : period - 1 - turn;
  if (mode == BORDER) return index >= 0 && index < size ? index : -1;
  if (mode == MIRROR_ONCE) index = index < 0 ? -1 - index : index;
  return index < 0 ? 0 : index > last ? last : index;
}

static inline __attribute__((always_inline)) void places(const float *uv, int size, int mode, int *first, int *second, float *part) {
  for (int k = 0; k < L; k++) {
    float turns = mode == WRAP ? floorf(uv[2 * k]) : mode == MIRROR ? 2 * floorf(uv[2 * k] / 2) : 0;
    float place = fminf(fmaxf((uv[2 * k] - turns) * (float)size, -1e9f), 1e9f) - 0.5f;
    float low = floorf(place);
    first[k] = element((int)low, size, mode);
    second[k] = element((int)low + 1, size, mode);
    part[k] = place - low;
  }
}

struct around { int x0[L], x1[L], y0[L], y1[L]; float right[L], below[L]; };

static inline __attribute__((always_inline)) void around(struct around *a, const float *uv, int width, int height, int mode) {
  places(uv, width, mode, a->x0, a->x1, a->right);
  places(uv + 1, height, mode, a->y0, a->y1, a->below);
}

static inline __attribute__((always_inline)) F4 texel(const F4 *t, int x, int y, int width, int mode, F4 border) {
  if (mode == BORDER && (x < 0 || y < 0)) return border;
  return t[(long)y * width + x];
}

static inline __attribute__((always_inline)) void values(long n, int width, int height, int mode, const F4 *t, const float *uv, F4 *out) {
  const F4 border = {1, 1, 1, 1};
#pragma omp parallel for schedule(static)
  for (long i = 0; i < n; i += L) {
    struct around a;
    around(&a, uv + 2 * i, width, height, mode);
    for (int k = 0; k < L; k++) {
      F4 p = texel(t, a.x0[k], a.y0[k], width, mode, border), q = texel(t, a.x1[k], a.y0[k], width, mode, border);
      F4 r = texel(t, a.x0[k], a.y1[k], width, mode, border), s = texel(t, a.x1[k], a.y1[k], width, mode, border);
      F4 top = p + (q - p) * a.right[k], bottom = r + (s - r) * a.right[k];
      _mm_stream_ps((float *)(out + i + k), (__m128)(top + (bottom - top) * a.below[k]));
    }
  }
}

static inline __attribute__((always_inline)) void add(F4 *g, int x, int y, int width, int mode, F4 v) {
  if (mode != BORDER || (x >= 0 && y >= 0)) g[(long)y * width + x] += v;
}

// Each thread but the first adds to a copy of its own.
static inline __attribute__((always_inline)) void gradients(long n, int width, int height, int mode, F4 *g, const float *uv, const F4 *ct) {
  long count = (long)width * height;
  memset(g, 0, count * sizeof(F4));
#pragma omp parallel
  {
    F4 *own = omp_get_thread_num() ? mmap(NULL, count * sizeof(F4), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) : g;
#pragma omp for schedule(static)
    for (long i = 0; i < n; i += L) {
      struct around a;
      around(&a, uv + 2 * i, width, height, mode);
      for (int k = 0; k < L; k++) {
        F4 below = ct[i + k] * a.below[k], above = ct[i + k] - below;
        F4 aboveRight = above * a.right[k], belowRight = below * a.right[k];
        add(own, a.x0[k], a.y0[k], width, mode, above - aboveRight);
        add(own, a.x1[k], a.y0[k], width, mode, aboveRight);
        add(own, a.x0[k], a.y1[k], width, mode, below - belowRight);
        add(own, a.x1[k], a.y1[k], width, mode, belowRight);
      }
    }
    if (own != g) {
#pragma omp critical
      for (long i = 0; i < count; i++) g[i] += own[i];
      munmap(own, count * sizeof(F4));
    }
  }
}

#define EACH(call) \
  switch (mode) { \
  case WRAP: call(WRAP); break; \
  case CLAMP: call(CLAMP); break; \
  case BORDER: call(BORDER); break; \
  case MIRROR: call(MIRROR); break; \
  default: call(MIRROR_ONCE); \
  }

void w9_values(long n, long width, long height, long mode, const float *t, const float *uv, float *out) {
#define VALUES(m) values(n, width, height, m, (const F4 *)t, uv, (F4 *)out)
  EACH(VALUES)
}

void w9_gradients(long n, long width, long height, long mode, float *g, const float *uv, const float *ct) {
#define GRADIENTS(m) gradients(n, width, height, m, (F4 *)g, uv, (const F4 *)ct)
  EACH(GRADIENTS)
}
