// SPDX-License-Identifier: Apache-2.0
// "Did you mean": names that a word may be a slip of.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sinter::ir {

/// Levenshtein distance between `a` and `b`, ignoring case.
std::size_t edit_distance(std::string_view a, std::string_view b);

/// The element of `names` nearest to `word`; empty if none is similar, or if `word` is too long.
std::string nearest(std::string_view word, std::span<const std::string> names);

/// ": did you mean 'batch'?", or nothing. Names are shown escaped.
std::string did_you_mean(std::string_view word, std::span<const std::string> names);

}  // namespace sinter::ir
