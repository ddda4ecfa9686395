// SPDX-License-Identifier: Apache-2.0
// Unicode's normal forms (UAX #15), as of Unicode 12: characters that came later stay as they are,
// and their marks are in no order with others.
#pragma once

#include <functional>
#include <string_view>

namespace sinter::tools::unicode {

enum class NormalForm : char { kNfc, kNfd, kNfkc, kNfkd };

/// Calls `put` with each character of the normalized `text` (UTF-8) and the number of original
/// characters that it replaces: 0 if it belongs to the previous one's.
void normalize(std::string_view text, NormalForm form,
               const std::function<void(char32_t, int)>& put);

}  // namespace sinter::tools::unicode
