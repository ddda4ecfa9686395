// SPDX-License-Identifier: Apache-2.0
// Calls of xgrammar: what it says, as errors, and an end to what would take too long.
#pragma once

#include <cstdint>
#include <functional>

namespace sinter::grammar {

/// Calls what calls xgrammar, for `units` of work at most (CountWork of
/// tools/cmake/patch_xgrammar.py), and takes off those that were used. Errors, and warnings, which
/// are of what would be left out, become Error(kUsage). After one the objects that were called are
/// of no more use.
void call_xgrammar(std::int64_t& units, const std::function<void()>& call);

}  // namespace sinter::grammar
