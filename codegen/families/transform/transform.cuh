// SPDX-License-Identifier: Apache-2.0
// Fourier transforms of rows in shared memory: Stockham's, in stages of mixed radix, so that no
// stage reorders and results lie in order.
//
// Bytes bound it: a row is read once and written once, and a transform of n numbers takes about
// 5 n log2 n operations. Two real rows are the parts of one complex row, for half the operations.
#pragma once

#include "vector.cuh"

struct alignas(8) Number {
  float re, im;
};
SINTER_DEVICE Number operator+(Number a, Number b) { return {a.re + b.re, a.im + b.im}; }
SINTER_DEVICE Number operator-(Number a, Number b) { return {a.re - b.re, a.im - b.im}; }
SINTER_DEVICE Number operator*(Number a, Number b) {
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
SINTER_DEVICE Number swapped(Number a) { return {a.im, a.re}; }

/// cos(2 pi i / 16). Conditions of known numbers leave one constant.
SINTER_DEVICE float cosine16(int i) {
  i = i % 16 > 8 ? 16 - i % 16 : i % 16;
  return i == 0   ? 1.0f
         : i == 1 ? 0.923879533f
         : i == 2 ? 0.707106781f
         : i == 3 ? 0.382683432f
         : i == 4 ? 0.0f
         : i == 5 ? -0.382683432f
         : i == 6 ? -0.707106781f
         : i == 7 ? -0.923879533f
                  : -1.0f;
}
/// x times exp(-2 pi sqrt(-1) i / 16).
SINTER_DEVICE Number turned(Number x, int i) {
  i %= 16;
  if (i == 0) return x;
  if (i == 4) return {x.im, -x.re};
  if (i == 8) return {-x.re, -x.im};
  if (i == 12) return {-x.im, x.re};
  const float c = cosine16(i), s = cosine16(i + 12);
  return {x.re * c + x.im * s, x.im * c - x.re * s};
}

/// cos and sin of 2 pi i / kPrime.
template <int kPrime>
SINTER_DEVICE float cosine(int i) {
  i = i % kPrime * 2 > kPrime ? kPrime - i % kPrime : i % kPrime;
  if (i == 0) return 1.0f;
  if (kPrime == 3) return -0.5f;
  if (kPrime == 5) return i == 1 ? 0.309016994f : -0.809016994f;
  return i == 1 ? 0.623489802f : i == 2 ? -0.222520934f : -0.900968868f;
}
template <int kPrime>
SINTER_DEVICE float sine(int i) {
  i %= kPrime;
  const bool above = i * 2 > kPrime;
  if (above) i = kPrime - i;
  const float s = i == 0        ? 0.0f
                  : kPrime == 3 ? 0.866025404f
                  : kPrime == 5 ? (i == 1 ? 0.951056516f : 0.587785252f)
                  : i == 1      ? 0.781831482f
                  : i == 2      ? 0.974927912f
                                : 0.433883739f;
  return above ? -s : s;
}

/// The transform of kRadix numbers in registers: an odd prime, whose pairs share products.
template <int kRadix>
struct Butterfly {
  SINTER_DEVICE static void of(Number (&v)[kRadix]) {
    constexpr int kHalf = (kRadix - 1) / 2;
    Number sum[kHalf + 1], difference[kHalf + 1], first = v[0];
#pragma unroll
    for (int j = 1; j <= kHalf; ++j) {
      sum[j] = v[j] + v[kRadix - j];
      difference[j] = v[j] - v[kRadix - j];
      first = first + sum[j];
    }
#pragma unroll
    for (int k = 1; k <= kHalf; ++k) {
      Number even = v[0], odd = {0.0f, 0.0f};
#pragma unroll
      for (int j = 1; j <= kHalf; ++j) {
        const float c = cosine<kRadix>(j * k), s = sine<kRadix>(j * k);
        even = {even.re + c * sum[j].re, even.im + c * sum[j].im};
        odd = {odd.re + s * difference[j].re, odd.im + s * difference[j].im};
      }
      v[k] = {even.re + odd.im, even.im - odd.re};
      v[kRadix - k] = {even.re - odd.im, even.im + odd.re};
    }
    v[0] = first;
  }
};
template <>
struct Butterfly<2> {
  SINTER_DEVICE static void of(Number (&v)[2]) {
    const Number sum = v[0] + v[1];
    v[1] = v[0] - v[1];
    v[0] = sum;
  }
};
template <>
struct Butterfly<4> {
  SINTER_DEVICE static void of(Number (&v)[4]) {
    const Number a = v[0] + v[2], b = v[0] - v[2], c = v[1] + v[3], d = turned(v[1] - v[3], 4);
    v[0] = a + c;
    v[1] = b + d;
    v[2] = a - c;
    v[3] = b - d;
  }
};
/// kA transforms of kB numbers, and kB of kA.
template <int kA, int kB>
SINTER_DEVICE void two_factors(Number (&v)[kA * kB]) {
  Number part[kA][kB];
#pragma unroll
  for (int b = 0; b < kB; ++b) {
    Number column[kA];
#pragma unroll
    for (int a = 0; a < kA; ++a) column[a] = v[kB * a + b];
    Butterfly<kA>::of(column);
#pragma unroll
    for (int a = 0; a < kA; ++a) part[a][b] = turned(column[a], a * b * (16 / (kA * kB)));
  }
#pragma unroll
  for (int a = 0; a < kA; ++a) {
    Butterfly<kB>::of(part[a]);
#pragma unroll
    for (int b = 0; b < kB; ++b) v[a + kA * b] = part[a][b];
  }
}
template <>
struct Butterfly<8> {
  SINTER_DEVICE static void of(Number (&v)[8]) { two_factors<2, 4>(v); }
};
template <>
struct Butterfly<16> {
  SINTER_DEVICE static void of(Number (&v)[16]) { two_factors<4, 4>(v); }
};

/// Rows of one kernel. kForm: 0: real, 1: complex, 2 and 3: the first frequencies of real signals,
/// given as real or complex numbers.
template <int kLength, int kCount, int kForm, bool kInverse, bool kWindow, int kRows, int kThreads,
          int... kRadices>
struct TransformRows {
  static constexpr bool kComplex = kForm % 2 == 1, kHalf = kForm >= 2;
  static constexpr bool kPairs = kForm != 1;  // two rows in one transform
  static constexpr int kSignals = kRows * (kPairs ? 2 : 1);
  // A stage's results are up to 16 apart: one place more for each 16 keeps them in other banks.
  static constexpr int kPitch = kLength + kLength / 16 + 1;
  SINTER_DEVICE static int place(int row, int i) { return row * kPitch + i + i / 16; }

  // The first stage reads memory and the last one writes it, except where two rows are parted.
  // Those between read a copy of the rows, and write it when all threads have read.
  static constexpr bool kParts = kPairs && !kHalf;
  static constexpr int kCopies = sizeof...(kRadices) > 1 || kParts ? 1 : 0,
                       kSharedBytes = kCopies * kRows * kPitch * static_cast<int>(sizeof(Number));

  /// Multiplies v[r] by the root number r * `step`. Two roots are loaded, whose products are the
  /// others: neighbours' roots are in as many lines of the cache as they are far apart.
  template <int kRadix>
  SINTER_DEVICE static void turn(Number (&v)[kRadix], const float* roots, int step) {
    Number root[kRadix];
#pragma unroll
    for (int r = 1; r < kRadix; ++r) {
      if (r == 1 || r == 4) {
        const Vec<float, 2> loaded = load<2>(roots + r * step * 2);
        root[r] = {loaded.v[0], loaded.v[1]};
      } else if (r < 4) {
        root[r] = root[r - 1] * root[1];
      } else {
        root[r] = r % 4 == 0 ? root[r - 4] * root[4] : root[r / 4 * 4] * root[r % 4];
      }
      v[r] = v[r] * root[r];
    }
  }

  /// `take(v, row, j)` gives numbers j, j + kLength / kRadix, .. of a row; `put(v, row, first,
  /// apart)` takes numbers first, first + apart, .. kInPlace: they lie where others are read.
  template <int kSpan, int kRadix, bool kInPlace, class Take, class Put>
  SINTER_DEVICE static void stage(const float* roots, const Take& take, const Put& put) {
    constexpr int kEach = kLength / kRadix, kTasks = (kRows * kEach + kThreads - 1) / kThreads,
                  kHeld = kInPlace ? kTasks : 1;
    Number v[kHeld][kRadix];
    const auto put_task = [&](Number(&of_task)[kRadix], int task) {
      const int j = task % kEach;
      put(of_task, task / kEach, j / kSpan * (kSpan * kRadix) + j % kSpan, kSpan);
    };
#pragma unroll(kHeld)
    for (int t = 0; t < kTasks; ++t) {
      const int task = static_cast<int>(threadIdx.x) + t * kThreads;
      if (task >= kRows * kEach) continue;
      Number(&own)[kRadix] = v[t % kHeld];
      const int j = task % kEach;
      take(own, task / kEach, j);
      if constexpr (kSpan > 1) turn(own, roots, j % kSpan * (kLength / (kSpan * kRadix)));
      Butterfly<kRadix>::of(own);
      if (!kInPlace) put_task(own, task);
    }
    if (!kInPlace) return;
    __syncthreads();
#pragma unroll
    for (int t = 0; t < kHeld; ++t)
      if (const int task = static_cast<int>(threadIdx.x) + t * kThreads; task < kRows * kEach)
        put_task(v[t], task);
  }
  template <int kRadix>
  SINTER_DEVICE static void take_from(const Number* from, Number (&v)[kRadix], int row, int j) {
#pragma unroll
    for (int r = 0; r < kRadix; ++r) v[r] = from[place(row, j + r * (kLength / kRadix))];
  }
  template <int kRadix>
  SINTER_DEVICE static void put_into(Number* to, const Number (&v)[kRadix], int row, int first,
                                     int apart) {
#pragma unroll
    for (int r = 0; r < kRadix; ++r) to[place(row, first + r * apart)] = v[r];
  }
  template <int kSpan, int kRadix, int... kRest, class Take, class Put>
  SINTER_DEVICE static void stages(Number* copy, const float* roots, const Take& take,
                                   const Put& put) {
    if constexpr (sizeof...(kRest) == 0 && !kParts) {
      stage<kSpan, kRadix, false>(roots, take, put);
    } else {
      stage<kSpan, kRadix, (kSpan > 1)>(roots, take, [&](auto& v, int row, int first, int apart) {
        put_into(copy, v, row, first, apart);
      });
      __syncthreads();
      if constexpr (sizeof...(kRest) > 0)
        stages<kSpan * kRadix, kRest...>(
            copy, roots, [&](auto& v, int row, int j) { take_from(copy, v, row, j); }, put);
    }
  }

  /// Element `i` of the row at `x`, which has `n`.
  template <class T>
  SINTER_DEVICE static Number element(const T* x, int i, int n) {
    const bool is_mirrored = kHalf && 2 * i > kLength;
    const int at = is_mirrored ? kLength - i : i;
    if (at >= n) return {0.0f, 0.0f};
    if (!kComplex) return {static_cast<float>(widen(x[at])), 0.0f};
    const Vec<T, 2> pair = load<2>(x + 2 * at);
    Number value = {widen(pair, 0), widen(pair, 1)};
    if (is_mirrored) value.im = -value.im;
    if (kHalf && (i == 0 || 2 * i == kLength)) value.im = 0.0f;
    return value;
  }

  /// `rows` rows, of which `frames` lie in each signal of `pitch` numbers, `step` apart.
  template <class T>
  SINTER_DEVICE static void run(const T* x, const float* roots, const T* window, T* y, i64 rows,
                                i64 pitch, i64 frames, i64 step, i64 block) {
    SINTER_DYNAMIC_SHARED(memory);
    Number* const copy = reinterpret_cast<Number*>(memory);
    const int n = static_cast<int>(pitch < kLength ? pitch : kLength);
    const i64 first_signal = block * kSignals;
    const auto row_at = [&](i64 row) {
      const i64 offset = frames == 1 ? row * pitch : row / frames * pitch + row % frames * step;
      return x + offset * (kComplex ? 2 : 1);
    };
    const auto signal_of = [&](int row) { return first_signal + row * (kPairs ? 2 : 1); };
    const auto take = [&](auto& v, int row, int j) {
      constexpr int kRadix = static_cast<int>(sizeof(v) / sizeof(Number));
      const i64 signal = signal_of(row);
      const bool one = signal < rows, two = kPairs && signal + 1 < rows;
      const T* const own = one ? row_at(signal) : x;
      const T* const next = two ? row_at(signal + 1) : x;
#pragma unroll
      for (int r = 0; r < kRadix; ++r) {
        const int i = j + r * (kLength / kRadix);
        Number value = {0.0f, 0.0f};
        if (one) value = element(own, i, n);
        if (two) {
          const Number of_next = element(next, i, n);
          value = {value.re - of_next.im, value.im + of_next.re};
        }
        if (kWindow) {
          const float factor = widen(window[i]);
          value = {value.re * factor, value.im * factor};
        }
        v[r] = kInverse ? swapped(value) : value;
      }
    };
    constexpr float kScale = kInverse ? 1.0f / kLength : 1.0f;
    constexpr int kResults = kHalf ? kLength : kCount;
    const auto put_pair = [&](i64 signal, int k, float re, float im) {
      const float both[] = {re * kScale, im * kScale};
      if (signal < rows) store(y + (signal * kResults + k) * 2, both);
    };
    const auto put = [&](auto& v, int row, int first, int apart) {
      constexpr int kRadix = static_cast<int>(sizeof(v) / sizeof(Number));
      const i64 signal = signal_of(row);
#pragma unroll
      for (int r = 0; r < kRadix; ++r) {
        const int k = first + r * apart;
        if (k >= kResults) continue;
        const Number value = kInverse ? swapped(v[r]) : v[r];
        if (!kHalf) {
          put_pair(signal, k, value.re, value.im);
          continue;
        }
        if (signal < rows) y[signal * kResults + k] = narrow<T>(value.re * kScale);
        if (signal + 1 < rows) y[(signal + 1) * kResults + k] = narrow<T>(value.im * kScale);
      }
    };
    stages<1, kRadices...>(copy, roots, take, put);
    if constexpr (kParts) {
      const auto value_at = [&](int row, int k) {
        const Number value = copy[place(row, k)];
        return kInverse ? swapped(value) : value;
      };
      for (int task = threadIdx.x; task < kRows * kResults; task += kThreads) {
        const int row = task / kResults, k = task % kResults;
        const i64 signal = signal_of(row);
        // The rows' frequencies: conjugates of each other at k and kLength - k.
        const Number value = value_at(row, k), mirrored = value_at(row, k == 0 ? 0 : kLength - k);
        put_pair(signal, k, 0.5f * (value.re + mirrored.re), 0.5f * (value.im - mirrored.im));
        put_pair(signal + 1, k, 0.5f * (value.im + mirrored.im), 0.5f * (mirrored.re - value.re));
      }
    }
  }
};
