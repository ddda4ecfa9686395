// SPDX-License-Identifier: Apache-2.0
// Calls xgrammar: converts its messages to errors, and limits its work.
#pragma once

#include <cstdint>
#include <functional>

namespace sinter::grammar {

/// Calls xgrammar with a budget of `units` of work (CountWork of tools/cmake/patch_xgrammar.py),
/// and subtracts the work done. Errors become Error(kUsage), and so do warnings, because xgrammar
/// warns about what it ignores. After an error the objects involved must not be used.
void call_xgrammar(std::int64_t& units, const std::function<void()>& call);

}  // namespace sinter::grammar
