// The workloads by hand for AVX-512: gcc vectors of 16 floats, OpenMP. It stands for what an ideal compiler could emit.
// Gradients that all elements share are kept in accumulators of each thread, 16 lanes wide, and added up once at the
// end. Arrays are padded to whole vectors by the caller.
#include <immintrin.h>
#include <omp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define L 16
typedef float V __attribute__((vector_size(64)));
typedef int32_t I __attribute__((vector_size(64)));
#define PARALLEL_FOR _Pragma("omp parallel for schedule(static)")

static inline V load(const float *p) { return (V)_mm512_loadu_ps(p); }
static inline void store(float *p, V v) { _mm512_storeu_ps(p, (__m512)v); }
static inline void stream(float *p, V v) { _mm512_stream_ps(p, (__m512)v); }   // p at a multiple of 64 bytes
static inline V choose(I m, V a, V b) { return (V)(((I)a & m) | ((I)b & ~m)); }
static inline float sum(V v) { return _mm512_reduce_add_ps((__m512)v); }
static inline V all(float x) { return (V)_mm512_set1_ps(x); }

// ---- sin, cos, exp, log: about 1 ulp, |x| of sin and cos up to some thousands. They are inline because a call would
// spill the vector registers, and reduce with intrinsics because -ffast-math would reassociate operators. --------------
#define FMA(a, b, c) (V)_mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(c))
#define FNMA(a, b, c) (V)_mm512_fnmadd_ps((__m512)(a), (__m512)(b), (__m512)(c))   // c - a * b
#define NEAREST(x) (V)_mm512_roundscale_ps((__m512)(x), 8)

static inline V polynomial(V x, int n, const float *c) {   // the highest power comes first
  V p = all(c[0]);
  for (int k = 1; k < n; k++) p = FMA(p, x, all(c[k]));
  return p;
}
#define POLYNOMIAL(x, ...) polynomial(x, sizeof((const float[]){__VA_ARGS__}) / 4, (const float[]){__VA_ARGS__})

static inline V exponential(V x) {
  V n = NEAREST(x * 1.44269504f);
  V r = FNMA(n, all(-2.12194440e-4f), FNMA(n, all(.693359375f), x));
  V p = POLYNOMIAL(r, 1.9875691500e-4f, 1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f, 1.6666665459e-1f,
                   5.0000001201e-1f, 1, 1);
  return (V)_mm512_scalef_ps((__m512)p, (__m512)n);
}

static inline V logarithm(V x) {   // x = 2^e (1 + m) with m in [-1/4, 1/2]
  V m = (V)_mm512_getmant_ps((__m512)x, _MM_MANT_NORM_p75_1p5, _MM_MANT_SIGN_src) - 1;
  V e = (V)_mm512_getexp_ps((__m512)(x * 1.33333333f));
  V p = POLYNOMIAL(m, -4.507478257e-2f, 1.046302071e-1f, -1.316119371e-1f, 1.447839530e-1f, -1.664731219e-1f,
                   1.999086121e-1f, -2.500009584e-1f, 3.333344911e-1f, -.5f, 1);
  return FMA(e, all(.693359375f), FMA(e, all(-2.12194440e-4f), p * m));
}

static inline void sine_cosine(V x, V *sine, V *cosine) {
  V n = NEAREST(x * .636619772f);
  V r = FNMA(n, all(-4.37113883e-8f), FNMA(n, all(1.57079637f), x)), q = r * r;
  I k = (I)_mm512_cvtps_epi32((__m512)n), odd = -(k & 1);
  V s = r * POLYNOMIAL(q, -1.9515295891e-4f, 8.3321608736e-3f, -1.6666654611e-1f, 1);
  V c = POLYNOMIAL(q, 2.443315711809948e-5f, -1.388731625493765e-3f, 4.166664568298827e-2f, -.5f, 1);
  *sine = (V)((I)choose(odd, c, s) ^ ((k & 2) << 30));
  *cosine = (V)((I)choose(odd, s, c) ^ (((k + 1) & 2) << 30));
}

// ---- W1, W2, W7c; few elements (W8) are not worth a parallel region -------------------------------------------------
#define FEW 4096
static inline V w1_value(long i, float a, float b, float c, const float *x) {
  V v = load(x + i);
  return a * v * v + b * v + c;
}
void w1_fwd(long n, float a, float b, float c, const float *x, float *y) {
  if (n <= FEW) {
    for (long i = 0; i < n; i += L) store(y + i, w1_value(i, a, b, c, x));
    return;
  }
  PARALLEL_FOR for (long i = 0; i < n; i += L) stream(y + i, w1_value(i, a, b, c, x));
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
    store(gx + i, load(gx + i) + load(gy + i) * (c * e - 2 * v * s * e + 2 * v / (1 + v * v)));
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

// ---- W3: g = 64 w1, 16 b1, 64 w2, 4 b2 gradients and the loss; everything is unrolled over the network --------------
#define GRADIENTS 149
static inline V slope_of(V z) { return choose(z > 0, all(1), all(.01f)); }
static inline __attribute__((always_inline)) void w3_samples(V x, V y, const float *w1, const float *b1,
                                                             const float *w2, const float *b2, V *acc) {
  V in[4] = {x, y, x * x, y * y}, h[16], slope[16], gz[4], gh[16];
  V target[4] = {(x + y) / (1 + y * y), 2 * x + y, .5f * x * x + 1.2f * y, x + .5f * y * y};
#pragma GCC unroll 16
  for (int j = 0; j < 16; j++) {
    V z = all(b1[j]);
    for (int k = 0; k < 4; k++) z += w1[4 * j + k] * in[k];
    slope[j] = slope_of(z), h[j] = z * slope[j];
  }
#pragma GCC unroll 4
  for (int j = 0; j < 4; j++) {
    V z = all(b2[j]);
#pragma GCC unroll 16
    for (int k = 0; k < 16; k++) z += w2[16 * j + k] * h[k];
    V s = slope_of(z), error = z * s - target[j];
    acc[148] += error * error, gz[j] = 2 * error * s, acc[144 + j] += gz[j];
#pragma GCC unroll 16
    for (int k = 0; k < 16; k++) acc[80 + 16 * j + k] += gz[j] * h[k];
  }
#pragma GCC unroll 16
  for (int k = 0; k < 16; k++) {
    gh[k] = w2[k] * gz[0];
    for (int j = 1; j < 4; j++) gh[k] += w2[16 * j + k] * gz[j];
    gh[k] *= slope[k], acc[64 + k] += gh[k];
    for (int j = 0; j < 4; j++) acc[4 * k + j] += gh[k] * in[j];
  }
}
void w3(long n, float rate, const float *xs, const float *ys, float *w1, float *b1, float *w2, float *b2, float *g) {
  memset(g, 0, GRADIENTS * 4);
#pragma omp parallel
  {
    V acc[GRADIENTS] = {0};
#pragma omp for schedule(static) nowait
    for (long i = 0; i < n; i += L) w3_samples(load(xs + i), load(ys + i), w1, b1, w2, b2, acc);
#pragma omp critical
    for (int k = 0; k < GRADIENTS; k++) g[k] += sum(acc[k]);
  }
  for (int k = 0; k < 64; k++) w1[k] -= rate * g[k], w2[k] -= rate * g[80 + k];
  for (int k = 0; k < 16; k++) b1[k] -= rate * g[64 + k];
  for (int k = 0; k < 4; k++) b2[k] -= rate * g[144 + k];
}

// ---- W4: each thread, and for small tables each lane, adds into a copy of its own -----------------------------------
static float w4_small(long n, long size, const float *table, const int32_t *index, const float *w, float *gradient) {
  const I lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  float loss = 0;
#pragma omp parallel reduction(+ : loss)
  {
    float *own = aligned_alloc(64, size * L * 4);
    V s = {0};
    memset(own, 0, size * L * 4);
#pragma omp for schedule(static) nowait
    for (long i = 0; i < n; i += L) {
      I at = (I)_mm512_loadu_si512(index + i), place = at * L + lane;
      V weight = load(w + i), before = (V)_mm512_i32gather_ps((__m512i)place, own, 4);
      s += (V)_mm512_i32gather_ps((__m512i)at, table, 4) * weight;
      _mm512_i32scatter_ps(own, (__m512i)place, (__m512)(before + weight), 4);
    }
#pragma omp critical
    for (long k = 0; k < size; k++) gradient[k] += sum(load(own + k * L));
    free(own);
    loss += sum(s);
  }
  return loss;
}
static float *zeros_on_huge_pages(long bytes) {   // few TLB misses, few page faults
  const long page = 1 << 21;
  float *p = aligned_alloc(page, (bytes + page - 1) / page * page);
  madvise(p, bytes, MADV_HUGEPAGE);
  memset(p, 0, bytes);
  return p;
}
static float w4_large(long n, long size, const float *table, const int32_t *index, const float *w, float *gradient) {
  float loss = 0;
#pragma omp parallel reduction(+ : loss)
  {
    float *own = omp_get_thread_num() ? zeros_on_huge_pages(size * 4) : gradient;
    V s = {0};
#pragma omp for schedule(static)
    for (long i = 0; i < n; i += L) {
      s += (V)_mm512_i32gather_ps(_mm512_loadu_si512(index + i), table, 4) * load(w + i);
      for (int k = 0; k < L; k++) own[index[i + k]] += w[i + k];
    }
    if (own != gradient) {
#pragma omp critical
      for (long k = 0; k < size; k += L) store(gradient + k, load(gradient + k) + load(own + k));
      free(own);
    }
    loss += sum(s);
  }
  return loss;
}
float w4(long n, long size, const float *table, const int32_t *index, const float *w, float *gradient) {
  memset(gradient, 0, size * 4);
  return (size <= 4096 ? w4_small : w4_large)(n, size, table, index, w, gradient);
}

// ---- W5 -------------------------------------------------------------------------------------------------------------
void w5a(long n, int limit, const float *cr, const float *ci, float *out) {
#pragma omp parallel for schedule(dynamic, 64)
  for (long i = 0; i < n; i += L) {
    V c = load(cr + i), d = load(ci + i), a = {0}, b = {0}, r2 = {0};
    I steps = {0}, inside = r2 <= 4;
    for (int k = 0; k < limit && _mm512_test_epi32_mask((__m512i)inside, (__m512i)inside); k++) {
      V next = a * a - b * b + c;
      b = choose(inside, 2 * a * b + d, b), a = choose(inside, next, a), r2 = a * a + b * b;
      steps -= inside, inside = inside & (r2 <= 4);
    }
    V r = choose(r2 > 4, r2, all(16)), count = __builtin_convertvector(steps, V);
    V smooth = logarithm(.5f * logarithm(r) * 1.4426950f) * 1.4426950f;   // half a log2, then log2
    store(out + i, choose(r2 > 4, count + 1 - smooth, all(limit)));
  }
}
#define STEPS 64
void w5b(long n, float h, const float *p, float *x, float *gp) {
  PARALLEL_FOR for (long i = 0; i < n; i += 4 * L) {   // four vectors in flight hide the latency of the recurrence
    V tape[STEPS][4], v[4], q[4], adjoint[4], g[4] = {0};
    for (int u = 0; u < 4; u++) v[u] = all(1), q[u] = load(p + i + u * L), adjoint[u] = all(1);
    for (int k = 0; k < STEPS; k++)
      for (int u = 0; u < 4; u++) tape[k][u] = v[u], v[u] -= h * (v[u] * v[u] * v[u] - q[u]);
    for (int k = STEPS; k--;)
      for (int u = 0; u < 4; u++) g[u] += h * adjoint[u], adjoint[u] *= 1 - 3 * h * tape[k][u] * tape[k][u];
    for (int u = 0; u < 4; u++) store(x + i + u * L, v[u]), store(gp + i + u * L, g[u]);
  }
}

// ---- W6: the forward loop keeps falloff and light of each gaussian, the reverse loop computes the rest again. U vectors
// of pixels at a time, so that the 9 accumulators of each gaussian (147 KB a thread) are loaded and stored less often. --
#define U 4
#define EACH for (int u = 0; u < U; u++)
#define OF(row) g[(row) * count + k]   // the gaussian's mx, my, sx, sy, angle, red, green, blue, opacity
struct gaussians { int count; const float *g, *cosine, *sine, *rx, *ry; };
struct kept { V (*light)[U], (*falloff)[U]; };

static inline void w6_blend(struct gaussians f, const V *px, V py, struct kept kept, V (*image)[3]) {
  const int count = f.count;
  const float *g = f.g;
  V light[U];
  EACH light[u] = all(1);
  for (int k = 0; k < count; k++) {
    float a = f.cosine[k] * f.rx[k], b = f.sine[k] * f.rx[k], c = f.cosine[k] * f.ry[k], d = f.sine[k] * f.ry[k];
    float opacity = OF(8), red = OF(5), green = OF(6), blue = OF(7);
    V dy = py - OF(1);
    EACH {
      V dx = px[u] - OF(0), s = a * dx + b * dy, t = c * dy - d * dx, e = exponential(-.5f * (s * s + t * t));
      V seen = light[u] * (opacity * e);
      kept.light[k][u] = light[u], kept.falloff[k][u] = e;
      image[u][0] += red * seen, image[u][1] += green * seen, image[u][2] += blue * seen, light[u] -= seen;
    }
  }
}
static inline void w6_gradient(struct gaussians f, const V *px, V py, struct kept kept, V (*gi)[3], V *accumulators) {
  const int count = f.count;
  const float *g = f.g;
  V ct_light[U] = {0};
  for (int k = count; k--;) {
    float c = f.cosine[k], s = f.sine[k], ix = f.rx[k] * f.rx[k], iy = f.ry[k] * f.ry[k];
    float opacity = OF(8), red = OF(5), green = OF(6), blue = OF(7);
    V dy = py - OF(1), *A = accumulators + 9 * k;
    V x0 = A[0], x1 = A[1], x2 = A[2], x3 = A[3], x4 = A[4], x5 = A[5], x6 = A[6], x7 = A[7], x8 = A[8];
    EACH {
      V dx = px[u] - OF(0), v = c * dx + s * dy, w = c * dy - s * dx, e = kept.falloff[k][u];
      V alpha = opacity * e, light = kept.light[k][u], seen = light * alpha;
      V color = red * gi[u][0] + green * gi[u][1] + blue * gi[u][2], ct_alpha = light * (color - ct_light[u]);
      V ct_exponent = ct_alpha * alpha, dv = -ct_exponent * v * ix, dw = -ct_exponent * w * iy;
      ct_light[u] += alpha * (color - ct_light[u]);
      x0 += dw * s - dv * c, x1 -= dv * s + dw * c, x2 -= dv * v, x3 -= dw * w, x4 += dv * w - dw * v;
      x5 += gi[u][0] * seen, x6 += gi[u][1] * seen, x7 += gi[u][2] * seen, x8 += ct_alpha * e;
    }
    A[0] = x0, A[1] = x1, A[2] = x2, A[3] = x3, A[4] = x4, A[5] = x5, A[6] = x6, A[7] = x7, A[8] = x8;
  }
}
float w6(int size, int count, const float *g, const float *target, float *gg) {
  const long n = (long)size * size;
  float loss = 0, scale = 2.f / (3 * n), cosine[count], sine[count], rx[count], ry[count];
  memset(gg, 0, 9 * count * 4);
  for (int k = 0; k < count; k++) {
    cosine[k] = __builtin_cosf(OF(4)), sine[k] = __builtin_sinf(OF(4)), rx[k] = 1 / OF(2), ry[k] = 1 / OF(3);
  }
  const struct gaussians all_of_them = {count, g, cosine, sine, rx, ry};
#pragma omp parallel reduction(+ : loss)
  {
    V *sums = aligned_alloc(64, 9 * count * 64), losses = {0};
    struct kept kept = {aligned_alloc(64, U * count * 64), aligned_alloc(64, U * count * 64)};
    memset(sums, 0, 9 * count * 64);
#pragma omp for schedule(static) nowait
    for (long i = 0; i < n; i += U * L) {
      V px[U], py = all(i / size + .5f), image[U][3] = {0};
      EACH for (int l = 0; l < L; l++) px[u][l] = i % size + u * L + l + .5f;
      w6_blend(all_of_them, px, py, kept, image);
      EACH for (int c = 0; c < 3; c++) {
        V difference = image[u][c] - load(target + c * n + i + u * L);
        losses += difference * difference, image[u][c] = scale * difference;
      }
      w6_gradient(all_of_them, px, py, kept, image, sums);
    }
    loss += sum(losses);
#pragma omp critical
    for (int k = 0; k < count; k++)
      for (int r = 0; r < 9; r++) gg[r * count + k] += sum(sums[9 * k + r]) * (r == 2 ? rx[k] : r == 3 ? ry[k] : 1);
    free(sums), free(kept.light), free(kept.falloff);
  }
  return loss / (3 * n);
}
