// SPDX-License-Identifier: Apache-2.0
// "Did you mean": names that a word may be a slip of.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sinter::ir {

/// Letters to insert, remove or change to make `b` of `a`; case does not count.
std::size_t edit_distance(std::string_view a, std::string_view b);

/// The first of `names` that `word` is least far from; empty if it is far from all of them, or so
/// long that a stranger must have made it up.
std::string nearest(std::string_view word, std::span<const std::string> names);

/// ": did you mean 'batch'?", or nothing. Names are shown escaped.
std::string did_you_mean(std::string_view word, std::span<const std::string> names);

}  // namespace sinter::ir
