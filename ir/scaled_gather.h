// SPDX-License-Identifier: Apache-2.0
// Rows of scaled matrices as nodes of a graph: embeddings.
#pragma once

#include "ir/graph.h"
#include "ir/scale_format.h"

namespace sinter::ir {

/// The numbers, f32 [.., k], that `rows` of codes as a ScaleFormat stores them stand for.
ValueId add_numbers(GraphBuilder& builder, const CodeType& codes, ValueId rows, std::int64_t k);

/// The rows of `weights` that `indices` [..] name, dequantized in f32 and rounded to `type`: [..,
/// k]. Throws Error(kUnsupported) for groups that k is no multiple of, or that rows share.
ValueId add_gathered(GraphBuilder& builder, const ScaledTensor& weights, ValueId indices,
                     DType type);

}  // namespace sinter::ir
