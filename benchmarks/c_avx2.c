// The workloads by hand for AVX2 and FMA: gcc vectors of 8 floats, several of them in flight, OpenMP. It stands for what a
// good compiler could emit on a machine without AVX-512. Gradients that all elements share are kept in accumulators of each
// thread, 8 lanes wide, and added up once at the end. Arrays are padded to whole vectors by the caller.
#include <immintrin.h>
#include <omp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define L 8
typedef float V __attribute__((vector_size(32)));
typedef int32_t I __attribute__((vector_size(32)));
#define EACH(u, n) _Pragma("GCC unroll 16") for (int u = 0; u < (n); u++)
#define PARALLEL_FOR _Pragma("omp parallel for schedule(static)")

static inline V load(const float *p) { return (V)_mm256_loadu_ps(p); }
static inline void store(float *p, V v) { _mm256_storeu_ps(p, (__m256)v); }
static inline void stream(float *p, V v) { _mm256_stream_ps(p, (__m256)v); }   // p at a multiple of 32 bytes
static inline V all(float x) { return (V)_mm256_set1_ps(x); }
static inline V fma8(V a, V b, V c) { return (V)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c); }
static inline V choose(I mask, V a, V b) { return (V)_mm256_blendv_ps((__m256)b, (__m256)a, (__m256)mask); }
static inline V nearest(V x) { return (V)_mm256_round_ps((__m256)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
static inline int any(I mask) { return _mm256_movemask_ps((__m256)mask); }
static inline float sum(V v) {
  float s = 0;
  for (int k = 0; k < L; k++) s += v[k];
  return s;
}

// ---- sin, cos, exp, log: about 1 ulp, |x| of sin and cos up to some thousands, exp without overflow to infinity ----
static inline V polynomial(V x, int n, const float *c) {   // the highest power comes first
  V p = all(c[0]);
  EACH(k, n - 1) p = fma8(p, x, all(c[k + 1]));
  return p;
}
#define POLYNOMIAL(x, ...) polynomial(x, sizeof((const float[]){__VA_ARGS__}) / 4, (const float[]){__VA_ARGS__})

static inline V exponential(V x) {
  x = (V)_mm256_max_ps(_mm256_min_ps((__m256)x, _mm256_set1_ps(88.f)), _mm256_set1_ps(-87.f));
  V n = nearest(x * 1.44269504f);
  V r = fma8(n, all(2.12194440e-4f), fma8(n, all(-.693359375f), x));
  V p = POLYNOMIAL(r, 1.9875691500e-4f, 1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f, 1.6666665459e-1f, .5f, 1, 1);
  return (V)((I)p + (__builtin_convertvector(n, I) << 23));
}

static inline V logarithm(V x) {   // x positive and normal; x = 2^e (1 + m) with m in [-1/4, 1/2]
  I e = ((I)x - 0x3f400000) >> 23;
  V m = (V)((I)x - (e << 23)) - 1, power = __builtin_convertvector(e, V);
  V p = POLYNOMIAL(m, -4.507478257e-2f, 1.046302071e-1f, -1.316119371e-1f, 1.447839530e-1f, -1.664731219e-1f,
                   1.999086121e-1f, -2.500009584e-1f, 3.333344911e-1f, -.5f, 1);
  return fma8(power, all(.693359375f), fma8(power, all(-2.12194440e-4f), p * m));
}

static inline void sine_cosine(V x, V *sine, V *cosine) {
  V n = nearest(x * .636619772f);
  V r = fma8(n, all(4.37113883e-8f), fma8(n, all(-1.57079637f), x)), q = r * r;
  I k = __builtin_convertvector(n, I), odd = k << 31;
  V s = r * POLYNOMIAL(q, -1.9515295891e-4f, 8.3321608736e-3f, -1.6666654611e-1f, 1);
  V c = POLYNOMIAL(q, 2.443315711809948e-5f, -1.388731625493765e-3f, 4.166664568298827e-2f, -.5f, 1);
  *sine = (V)((I)choose(odd, c, s) ^ ((k & 2) << 30));
  *cosine = (V)((I)choose(odd, s, c) ^ (((k + 1) & 2) << 30));
}

// ---- W1, W2, W7c; few elements (W8) are not worth a parallel region -------------------------------------------------
#define FEW 4096
void w1_fwd(long n, float a, float b, float c, const float *x, float *y) {
  if (n <= FEW) {
    for (long i = 0; i < n; i += L) store(y + i, (a * load(x + i) + b) * load(x + i) + c);
    return;
  }
  PARALLEL_FOR for (long i = 0; i < n; i += L) stream(y + i, (a * load(x + i) + b) * load(x + i) + c);
}
static inline void w1_slope(long i, float a, float b, const float *x, const float *gy, float *gx) {
  store(gx + i, load(gx + i) + load(gy + i) * (2 * a * load(x + i) + b));
}
void w1_bwd(long n, float a, float b, const float *x, const float *gy, float *gx) {
  if (n <= FEW) {
    for (long i = 0; i < n; i += L) w1_slope(i, a, b, x, gy, gx);
    return;
  }
  PARALLEL_FOR for (long i = 0; i < n; i += L) w1_slope(i, a, b, x, gy, gx);
}
void w2_fwd(long n, const float *x, float *y) {
  PARALLEL_FOR for (long i = 0; i < n; i += L) {
    V v = load(x + i), s, c;
    sine_cosine(v, &s, &c);
    stream(y + i, s * exponential(-v * v) + logarithm(1 + v * v));
  }
}
void w2_bwd(long n, const float *x, const float *gy, float *gx) {
  PARALLEL_FOR for (long i = 0; i < n; i += L) {
    V v = load(x + i), e = exponential(-v * v), s, c;
    sine_cosine(v, &s, &c);
    store(gx + i, load(gx + i) + load(gy + i) * (e * (c - 2 * v * s) + 2 * v / (1 + v * v)));
  }
}
void w7c(long n, const float *a, const float *b, const float *c, const float *d, float *e) {
  PARALLEL_FOR for (long i = 0; i < n; i += L) stream(e + i, load(d + i) + (load(a + i) + load(b + i)) * load(c + i));
}

// ---- W8: calls with bound arguments as the body of a Python builtin; a capsule holds the arguments ------------------
void *PyCapsule_GetPointer(void *, const char *);
void Py_IncRef(void *);
struct bound { long n; float a, b, c; const float *x, *gy; float *out; };
void *w8_fwd(void *capsule, void *nothing) {
  struct bound *p = PyCapsule_GetPointer(capsule, 0);
  w1_fwd(p->n, p->a, p->b, p->c, p->x, p->out);
  Py_IncRef(capsule);
  return capsule;
}
void *w8_bwd(void *capsule, void *nothing) {
  struct bound *p = PyCapsule_GetPointer(capsule, 0);
  w1_bwd(p->n, p->a, p->b, p->x, p->gy, p->out);
  Py_IncRef(capsule);
  return capsule;
}

// ---- W3: U vectors of samples at a time, so that each weight and each accumulator is read once for all of them ------
#define U 4
#define IN 4
#define HIDDEN 16
#define OUT 4
struct gradients { V w1[HIDDEN][IN], b1[HIDDEN], w2[OUT][HIDDEN], b2[OUT], loss; };   // 149 vectors: 4768 bytes, in L1
typedef V Group[U];

static inline void targets(const V *x, const V *y, Group t[OUT]) {
  EACH(u, U) {
    V a = x[u], b = y[u];
    t[0][u] = (a + b) / (1 + b * b), t[1][u] = 2 * a + b;
    t[2][u] = .5f * a * a + 1.2f * b, t[3][u] = a + .5f * b * b;
  }
}
static inline void hidden_layer(const float *w1, const float *b1, const Group in[IN], Group h[HIDDEN], Group slope[HIDDEN]) {
  for (int j = 0; j < HIDDEN; j++) {
    Group z;
    EACH(u, U) z[u] = all(b1[j]);
    EACH(k, IN) EACH(u, U) z[u] = fma8(all(w1[IN * j + k]), in[k][u], z[u]);
    EACH(u, U) slope[j][u] = choose((I)z[u], all(.01f), all(1)), h[j][u] = z[u] * slope[j][u];
  }
}
static inline void output_layer(const float *w2, const float *b2, const Group h[HIDDEN], const Group t[OUT], Group g2[OUT],
                                struct gradients *g) {
  for (int j = 0; j < OUT; j++) {
    Group z;
    V bias = g->b2[j];
    EACH(u, U) z[u] = all(b2[j]);
    EACH(k, HIDDEN) EACH(u, U) z[u] = fma8(all(w2[HIDDEN * j + k]), h[k][u], z[u]);
    EACH(u, U) {
      V slope = choose((I)z[u], all(.01f), all(1)), error = z[u] * slope - t[j][u];
      g->loss += error * error, g2[j][u] = 2 * error * slope, bias += g2[j][u];
    }
    g->b2[j] = bias;
  }
}
static inline void weights_2(const Group h[HIDDEN], const Group g2[OUT], struct gradients *g) {
  EACH(j, OUT) for (int k = 0; k < HIDDEN; k++) {
    V s = g->w2[j][k];
    EACH(u, U) s = fma8(g2[j][u], h[k][u], s);
    g->w2[j][k] = s;
  }
}
static inline void weights_1(const float *w2, const Group in[IN], const Group slope[HIDDEN], const Group g2[OUT], struct gradients *g) {
  for (int k = 0; k < HIDDEN; k++) {
    Group gh;
    EACH(u, U) gh[u] = w2[k] * g2[0][u];
    EACH(j, OUT - 1) EACH(u, U) gh[u] = fma8(all(w2[HIDDEN * (j + 1) + k]), g2[j + 1][u], gh[u]);
    EACH(u, U) gh[u] *= slope[k][u];
    V bias = g->b1[k];
    EACH(u, U) bias += gh[u];
    g->b1[k] = bias;
    EACH(j, IN) {
      V s = g->w1[k][j];
      EACH(u, U) s = fma8(gh[u], in[j][u], s);
      g->w1[k][j] = s;
    }
  }
}
void w3(long n, float rate, const float *xs, const float *ys, float *w1, float *b1, float *w2, float *b2, float *out) {
  const int count = sizeof(struct gradients) / sizeof(V);
  memset(out, 0, 4 * count);
#pragma omp parallel
  {
    struct gradients g;
    memset(&g, 0, sizeof g);
#pragma omp for schedule(static) nowait
    for (long i = 0; i < n; i += U * L) {
      Group in[IN], h[HIDDEN], slope[HIDDEN], t[OUT], g2[OUT];
      EACH(u, U) in[0][u] = load(xs + i + u * L), in[1][u] = load(ys + i + u * L);
      EACH(u, U) in[2][u] = in[0][u] * in[0][u], in[3][u] = in[1][u] * in[1][u];
      targets(in[0], in[1], t);
      hidden_layer(w1, b1, in, h, slope);
      output_layer(w2, b2, h, t, g2, &g);
      weights_2(h, g2, &g);
      weights_1(w2, in, slope, g2, &g);
    }
#pragma omp critical
    for (int k = 0; k < count; k++) out[k] += sum(((V *)&g)[k]);
  }
  for (int k = 0; k < IN * HIDDEN; k++) w1[k] -= rate * out[k];
  for (int k = 0; k < HIDDEN; k++) b1[k] -= rate * out[64 + k];
  for (int k = 0; k < OUT * HIDDEN; k++) w2[k] -= rate * out[80 + k];
  for (int k = 0; k < OUT; k++) b2[k] -= rate * out[144 + k];
}

// ---- W4: each thread adds into copies of its own: neighbors go to different copies while these fit in L1 ------------
float w4(long n, long size, const float *table, const int32_t *index, const float *w, float *gradient) {
  const long copies = size <= 512 ? 8 : size <= 2048 ? 2 : 1;
  const long bytes = (size * copies * 4 + 63) / 64 * 64;
  float loss = 0;
  memset(gradient, 0, size * 4);
#pragma omp parallel reduction(+ : loss)
  {
    float *own = copies == 1 && omp_get_thread_num() == 0 ? gradient : aligned_alloc(64, bytes);
    V s = {0};
    if (own != gradient) memset(own, 0, bytes);
#pragma omp for schedule(static)
    for (long i = 0; i < n; i += L) {
      __m256i at = _mm256_loadu_si256((const __m256i *)(index + i));
      s = fma8((V)_mm256_i32gather_ps(table, at, 4), load(w + i), s);
      EACH(k, L) own[index[i + k] * copies + (k & (copies - 1))] += w[i + k];
    }
    if (own != gradient) {
#pragma omp critical
      for (long k = 0; k < size; k++)
        for (long c = 0; c < copies; c++) gradient[k] += own[k * copies + c];
      free(own);
    }
    loss += sum(s);
  }
  return loss;
}

// ---- W5: four vectors in flight hide the latency of the recurrences ------------------------------------------------------
void w5a(long n, int limit, const float *cr, const float *ci, float *out) {
#pragma omp parallel for schedule(dynamic, 64)
  for (long i = 0; i < n; i += 2 * L) {
    V c[2], d[2], a[2] = {0}, b[2] = {0}, r2[2] = {0};
    I steps[2] = {0}, inside[2];
    EACH(u, 2) c[u] = load(cr + i + u * L), d[u] = load(ci + i + u * L), inside[u] = r2[u] <= 4;
    for (int k = 0; k < limit && any(inside[0] | inside[1]); k++)
      EACH(u, 2) {
        V next = a[u] * a[u] - b[u] * b[u] + c[u];
        b[u] = choose(inside[u], 2 * a[u] * b[u] + d[u], b[u]), a[u] = choose(inside[u], next, a[u]);
        r2[u] = a[u] * a[u] + b[u] * b[u], steps[u] -= inside[u], inside[u] &= r2[u] <= 4;
      }
    EACH(u, 2) {
      I gone = r2[u] > 4;
      V smooth = logarithm(logarithm(choose(gone, r2[u], all(16))) * .72134752f) * 1.44269504f;   // half a log2, then log2
      store(out + i + u * L, choose(gone, __builtin_convertvector(steps[u], V) + 1 - smooth, all(limit)));
    }
  }
}
#define STEPS 64
void w5b(long n, float h, const float *p, float *x, float *gp) {
  PARALLEL_FOR for (long i = 0; i < n; i += U * L) {
    Group tape[STEPS], v, q, adjoint, g = {0};
    EACH(u, U) v[u] = all(1), q[u] = load(p + i + u * L), adjoint[u] = all(1);
    for (int k = 0; k < STEPS; k++)
      EACH(u, U) tape[k][u] = v[u], v[u] -= h * (v[u] * v[u] * v[u] - q[u]);
    for (int k = STEPS; k--;)
      EACH(u, U) g[u] += h * adjoint[u], adjoint[u] *= 1 - 3 * h * tape[k][u] * tape[k][u];
    EACH(u, U) store(x + i + u * L, v[u]), store(gp + i + u * L, g[u]);
  }
}
