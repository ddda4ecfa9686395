// SPDX-License-Identifier: Apache-2.0
// What a tokenizer.json says of the lengths of texts: "truncation" and "padding".
#pragma once

#include <cstddef>
#include <cstdint>

namespace sinter::tools {

/// The file's rule for cutting long texts; special tokens around them count.
struct Truncation {
  std::size_t tokens = 0;
  bool from_left = false;    // cuts the beginning instead of the end
  bool only_second = false;  // for pairs: a single text that is too long is refused
};

/// The file's rule for padding texts.
struct Padding {
  std::size_t tokens = 0;    // 0: the longest text's length
  std::size_t multiple = 0;  // rounds up to a multiple of this; 0: no rounding
  std::int64_t id = 0;
  bool from_left = false;
};

}  // namespace sinter::tools
