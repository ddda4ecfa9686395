// SPDX-License-Identifier: Apache-2.0
// What blocks of one launch tell those behind them. A record is one or two words, each with half a
// value below the record's state: no fence need order value and state. Records are zero before the
// kernel starts.
//
// A block waits only for blocks with smaller numbers, which the hardware starts before it.
#pragma once

#include "scalar.cuh"

/// `state`: not 0, which is that of a record that nobody has published.
template <class T>
SINTER_DEVICE void publish(u64* record, u32 state, T value) {
  u64 bits = 0;
  memcpy(&bits, &value, sizeof(T));
  volatile u64* words = record;
  if (sizeof(T) > 4) words[1] = u64(state) << 32 | bits >> 32;
  words[0] = u64(state) << 32 | u32(bits);
}

/// The record's state, and its value where that is not 0.
template <class T>
SINTER_DEVICE u32 published(const u64* record, T& value) {
  const volatile u64* words = record;
  const u64 low = words[0], high = sizeof(T) > 4 ? words[1] : low;
  const u32 state = u32(low >> 32);
  if (state == 0 || state != u32(high >> 32)) return 0;
  const u64 bits = u64(u32(low)) | (sizeof(T) > 4 ? high << 32 : 0);
  memcpy(&value, &bits, sizeof(T));
  return state;
}
