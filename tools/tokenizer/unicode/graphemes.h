// SPDX-License-Identifier: Apache-2.0
// Where a character that a reader sees ends: Unicode's extended grapheme clusters (UAX #29).
#pragma once

#include <string_view>

namespace sinter::tools::unicode {

/// Bytes of the grapheme cluster that begins at `at` < size of `text` (UTF-8).
std::size_t grapheme_length(std::string_view text, std::size_t at);

}  // namespace sinter::tools::unicode
