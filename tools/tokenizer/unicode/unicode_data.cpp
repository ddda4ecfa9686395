// SPDX-License-Identifier: Apache-2.0
#include "tools/tokenizer/unicode/unicode_data.h"

namespace sinter::tools::unicode {
namespace {

#include "tools/tokenizer/unicode/unicode_tables.inc"

}  // namespace

std::span<const ScriptNames> scripts() { return kScripts; }
std::span<const Decomposition> canonical() { return kCanonical; }
std::span<const Decomposition> compatible() { return kCompatible; }
std::u32string_view decomposed() { return {kDecomposed, std::size(kDecomposed)}; }
std::span<const Composition> compositions() { return kCompositions; }
std::span<const UnicodeRecord> records() { return kRecords; }
std::span<const UnicodeRun> runs() { return kRuns; }
std::span<const LowerRun> lower_runs() { return kLowerRuns; }

}  // namespace sinter::tools::unicode
