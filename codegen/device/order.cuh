// SPDX-License-Identifier: Apache-2.0
// Maps elements to unsigned keys of the same order.
#pragma once

#include "math.cuh"

SINTER_DEVICE u32 bits_of(float x) {
#ifdef __CUDACC__
  return __float_as_uint(x);
#else
  return emulator::float_to_bits(x);
#endif
}
SINTER_DEVICE u64 bits_of(double x) {
#ifdef __CUDACC__
  return static_cast<u64>(__double_as_longlong(x));
#else
  u64 bits;
  memcpy(&bits, &x, sizeof(bits));
  return bits;
#endif
}

// Both zeros map to one key, and so do all NaNs, which come last.
SINTER_DEVICE u32 key_of(float x) {
  if (x != x) return ~0u;
  const u32 bits = bits_of(x == 0.0f ? 0.0f : x);
  return (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
}
SINTER_DEVICE u64 key_of(double x) {
  if (x != x) return ~0ull;
  const u64 bits = bits_of(x == 0.0 ? 0.0 : x);
  return (bits >> 63) != 0 ? ~bits : bits | 0x8000000000000000ull;
}
SINTER_DEVICE u32 key_of(f16 x) { return key_of(widen(x)); }
SINTER_DEVICE u32 key_of(bf16 x) { return key_of(widen(x)); }
SINTER_DEVICE u32 key_of(i32 x) { return static_cast<u32>(x) ^ 0x80000000u; }
SINTER_DEVICE u32 key_of(i16 x) { return key_of(static_cast<i32>(x)); }
SINTER_DEVICE u32 key_of(i8 x) { return key_of(static_cast<i32>(x)); }
SINTER_DEVICE u32 key_of(u32 x) { return x; }
SINTER_DEVICE u32 key_of(u16 x) { return x; }
SINTER_DEVICE u32 key_of(u8 x) { return x; }
SINTER_DEVICE u64 key_of(i64 x) { return static_cast<u64>(x) ^ 0x8000000000000000ull; }
SINTER_DEVICE u64 key_of(u64 x) { return x; }

// Keys that have as many bytes as the element, for sorts by bytes.
SINTER_DEVICE u32 half_key(u16 bits, u16 infinity) {
  if ((bits & 0x7fffu) > infinity) return 0xffffu;
  if (bits == 0x8000u) bits = 0;
  return (bits & 0x8000u) != 0 ? u32(bits) ^ 0xffffu : bits | 0x8000u;
}
template <class T>
SINTER_DEVICE auto short_key_of(T x) {
  return key_of(x);
}
SINTER_DEVICE u32 short_key_of(f16 x) { return half_key(x.bits, 0x7c00); }
SINTER_DEVICE u32 short_key_of(bf16 x) { return half_key(x.bits, 0x7f80); }
SINTER_DEVICE u32 short_key_of(i16 x) { return static_cast<u16>(x) ^ 0x8000u; }
SINTER_DEVICE u32 short_key_of(i8 x) { return static_cast<u8>(x) ^ 0x80u; }

/// The key of a number that is not NaN, in fewer instructions.
SINTER_DEVICE u32 key_of_number(float x) {
  const u32 bits = bits_of(x + 0.0f);  // -0 becomes +0
  return bits ^ (static_cast<u32>(static_cast<i32>(bits) >> 31) | 0x80000000u);
}

/// The float whose key is `key`, which is not NaN's.
SINTER_DEVICE float float_of_key(u32 key) {
  const u32 bits = (key >> 31) != 0 ? key & 0x7fffffffu : ~key;
#ifdef __CUDACC__
  return __uint_as_float(bits);
#else
  return emulator::bits_to_float(bits);
#endif
}
