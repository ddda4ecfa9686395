// SPDX-License-Identifier: Apache-2.0
// What a collective does with the ranks' operands.
#pragma once

#include <cstdint>

namespace sinter::plan {

/// The attribute "kind". Operands are [a, b, c, d, e]; of N ranks' x, rank r gets
enum class CollectiveKind : std::int64_t {
  kReduce = 0,      // their combination
  kGather = 1,      // them one behind the other along b
  kScatter = 2,     // part r along b of their combination
  kSplitFirst = 3,  // parts r along b, one behind the other along d
  kSplitLast = 4,   // parts r along d, one behind the other along b
};

}  // namespace sinter::plan
