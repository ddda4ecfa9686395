// SPDX-License-Identifier: Apache-2.0
// Fourier transforms: what they have, and of which lengths kernels compute them.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/attributes.h"
#include "ir/tensor.h"

namespace sinter::ir {

/// A Dft node's attributes; see ops/transform.cpp.
struct Dft {
  explicit Dft(const Attrs& attrs);
  std::int64_t length = 0;  // of the transform
  std::int64_t count = 0;   // frequencies of the result
  std::int64_t step = 0;    // from one frame of the signal to the next; 0: rows are signals
  bool complex = false;     // whether the input has imaginary parts
  bool half = false;        // the input has the first frequencies of a real signal, the result
  bool inverse = false;
};

/// The longest transform that a kernel computes: a block has two copies of a row in shared memory.
inline constexpr std::int64_t kLongestTransform = 4096;

/// The radices whose product is `length`, largest first, each of which a kernel has: 16, 8, 7, 5,
/// 4, 3 or 2. Empty if there are none, or the length is above kLongestTransform.
std::vector<int> transform_radices(std::int64_t length);

/// cos and -sin of 2 pi i / length for each i below it: f32 [length, 2].
Tensor roots_of_unity(std::int64_t length);

}  // namespace sinter::ir
