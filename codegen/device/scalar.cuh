// SPDX-License-Identifier: Apache-2.0
// Element types and conversions. Storage types narrower than a compute type are structs of bits, so
// that no arithmetic on them compiles by accident. Self-contained: NVRTC finds no toolkit headers
// here, and compiles in a fraction of the time without them.
#pragma once

#ifdef __CUDACC__
#define SINTER_DEVICE __device__ __forceinline__
#else
#include "cuda_emulator.h"  // tests/codegen: kernels as host code, without a GPU
#define SINTER_DEVICE inline
#endif

// Dynamic shared memory: the launch decides its size (KernelVariant.shared_bytes).
#ifdef __CUDACC__
#define SINTER_DYNAMIC_SHARED(name) extern __shared__ __align__(128) unsigned char name[]
#else
#define SINTER_DYNAMIC_SHARED(name) unsigned char* const name = emulator::dynamic_shared()
#endif

typedef signed char i8;
typedef short i16;
typedef int i32;
typedef long long i64;
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

struct f16 {
  u16 bits;
};
struct bf16 {
  u16 bits;
};
// 8-bit floats; Float8 says how they are converted.
struct e4m3fn {
  u8 bits;
};
struct e5m2 {
  u8 bits;
};
struct e4m3fnuz {
  u8 bits;
};
struct e5m2fnuz {
  u8 bits;
};
struct b8 {  // a stored bool: any byte but 0 is true
  u8 bits;
};

// ---- storage type -> compute type
SINTER_DEVICE float widen(f16 x) {
#ifdef __CUDACC__
  float result;
  asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(x.bits));
  return result;
#else
  return emulator::half_to_float(x.bits);
#endif
}
SINTER_DEVICE float widen(bf16 x) {
#ifdef __CUDACC__
  return __uint_as_float(static_cast<u32>(x.bits) << 16);
#else
  return emulator::bits_to_float(static_cast<u32>(x.bits) << 16);
#endif
}
SINTER_DEVICE bool widen(b8 x) { return x.bits != 0; }
template <class T>
SINTER_DEVICE T widen(T x) {
  return x;
}

// ---- compute type -> storage type, rounding to nearest even
template <class T>
struct Narrow {
  template <class From>
  SINTER_DEVICE static T of(From x) {
    return static_cast<T>(x);
  }
};
template <>
struct Narrow<f16> {
  SINTER_DEVICE static f16 of(float x) {
#ifdef __CUDACC__
    f16 result;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(result.bits) : "f"(x));
    return result;
#else
    return f16{emulator::float_to_half(x)};
#endif
  }
};
template <>
struct Narrow<bf16> {
  SINTER_DEVICE static bf16 of(float x) {
#ifdef __CUDACC__
    bf16 result;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(result.bits) : "f"(x));
    return result;
#else
    return bf16{emulator::float_to_bfloat(x)};
#endif
  }
};
template <>
struct Narrow<b8> {
  template <class From>
  SINTER_DEVICE static b8 of(From x) {
    return b8{static_cast<u8>(x != From(0))};
  }
};
template <class T, class From>
SINTER_DEVICE T narrow(From x) {
  return Narrow<T>::of(x);
}

// ---- index arithmetic
/// a / b for unsigned values; 64-bit division, which is slow, only if an operand needs it.
SINTER_DEVICE u32 quotient(u32 a, u32 b) { return a / b; }
SINTER_DEVICE u64 quotient(u64 a, u64 b) {
  return ((a | b) >> 32) == 0 ? static_cast<u32>(a) / static_cast<u32>(b) : a / b;
}
/// floor(a / b) for operands of either sign; b != 0.
template <class T>
SINTER_DEVICE T floor_quotient(T a, T b) {
  const T q = a / b;
  return q * b != a && (a < 0) != (b < 0) ? q - 1 : q;
}
// For sizes that a kernel reads from memory.
SINTER_DEVICE i64 min_size(i64 a, i64 b) { return a < b ? a : b; }
SINTER_DEVICE i64 max_size(i64 a, i64 b) { return a < b ? b : a; }
/// A data-dependent index: negative values count from the end; out-of-range values give element 0.
template <class T>
SINTER_DEVICE i64 wrap_index(T value, i64 extent) {
  const i64 index = static_cast<i64>(value);
  const i64 wrapped = index < 0 ? index + extent : index;
  return static_cast<u64>(wrapped) < static_cast<u64>(extent) ? wrapped : 0;
}
/// True if `value` is in range, so that wrap_index() gives the element that it names.
template <class T>
SINTER_DEVICE bool has_index(T value, i64 extent) {
  const i64 index = static_cast<i64>(value);
  return index >= -extent && index < extent;
}
/// True where 0 <= index < extent.
SINTER_DEVICE bool within(i32 index, i32 extent) {
  return static_cast<u32>(index) < static_cast<u32>(extent);
}
SINTER_DEVICE bool within(i64 index, i64 extent) {
  return static_cast<u64>(index) < static_cast<u64>(extent);
}
