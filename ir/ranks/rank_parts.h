// SPDX-License-Identifier: Apache-2.0
// Constants of which each rank has a part. A graph for one rank holds that rank's; what another
// rank has in their place follows from their recipes.
#pragma once

#include <memory>

#include "ir/constants/recipe.h"

namespace sinter::ir {

/// `size` indices of a tensor along an axis: {axis, starts, size, rank}, from starts[rank] on. All
/// ranks have the same if there is one start.
extern const Derivation kPart;

/// `whole` cut for rank 0. `starts`: of each rank's part. `log` records what is decided by it.
Tensor rank_part(const Tensor& whole, std::int64_t axis, Ints starts, std::int64_t size,
                 const std::shared_ptr<ReadLog>& log);

/// What rank `rank` has in the place of `tensor`, which is made for rank 0; not traced.
Tensor for_rank(const Tensor& tensor, std::int64_t rank);
/// The number of consecutive ranks that have the same part; 1 for a tensor that does not differ.
std::int64_t ranks_that_share(const Tensor& tensor);

/// Throws Error(kUnsupported) if what was decided by values of rank 0's parts, or by two of them
/// being equal, is wrong for another of `ranks` ranks: they all run the same steps.
void check_ranks_agree(const ReadLog& log, std::int64_t ranks);

}  // namespace sinter::ir
