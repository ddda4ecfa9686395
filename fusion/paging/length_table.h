// SPDX-License-Identifier: Apache-2.0
// Tables of which the number of all tokens chooses a part, such as angles of short and of long
// texts.
#pragma once

#include "fusion/context.h"
#include "fusion/paging/position_trials.h"

namespace sinter::fusion {

/// The Slice by which `node` gathers rows of a constant at token positions, from a row on that
/// follows from the number of all tokens; null if it does not.
const Node* length_table(const Graph& graph, const Node& node, const DecoderInputs& inputs,
                         const PositionTrials& trials);

/// `dim`, whose only symbol is the number of all tokens, for each of `lengths`. Throws
/// PagingRefused for divisions.
ValueId of_lengths(GraphBuilder& builder, const Dim& dim, ValueId lengths);

}  // namespace sinter::fusion
