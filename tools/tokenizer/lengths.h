// SPDX-License-Identifier: Apache-2.0
// What a tokenizer.json says of the lengths of texts: "truncation" and "padding".
#pragma once

#include <cstddef>
#include <cstdint>

namespace sinter::tools {

/// How a file wants long texts to be cut, the tokens around them counted.
struct Truncation {
  std::size_t tokens = 0;
  bool from_left = false;    // the end stays
  bool only_second = false;  // of pairs: a single text that is too long is refused
};

/// How a file wants texts to be made longer.
struct Padding {
  std::size_t tokens = 0;    // 0: as many as the longest text has
  std::size_t multiple = 0;  // then up to a multiple of this; 0: none
  std::int64_t id = 0;
  bool from_left = false;
};

}  // namespace sinter::tools
