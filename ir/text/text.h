// SPDX-License-Identifier: Apache-2.0
// Graphs as text. parse(print(g)) is structurally equal to g.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"

namespace sinter::ir {

struct PrintOptions {
  bool origins = true;            // "  # from Conv_12" after nodes
  std::size_t inline_limit = 16;  // constants with more elements print as a hash: #0123456789abcdef
  /// Receives the constant of each constant line, in the text's order.
  std::vector<std::shared_ptr<const Tensor>>* constants = nullptr;
};

/// One line a node, with bodies of fused nodes indented in braces:
///
///   graph @main(%ids: i64[batch, seq]) ranges {batch: 1..64, seq: 1..512} {
///     %w = const f32[30522, 384] #1f2e3d4c5b6a7988
///     %0 = Gather(%w, %ids) {axis = 0} : f32[batch, seq, 384]  # from embeddings/Gather
///     %1 = Fused(%0) {kind = "pointwise"} : f32[batch, seq, 384] body(%x) {  # from Mul_3
///       %half = const f32[] {0.5}
///       %0 = Mul(%x, %half) : f32[batch, seq, 384]
///       return %0
///     }
///     return embedding = %1
///   }
///
/// Attributes of their operator's default value are omitted.
/// A value is %name, or %number if it has no name; a name that is not a plain word is quoted. A
/// body's inputs have the types of its node's inputs; its ranges are those of the enclosing graph
/// unless stated. A range may end in a symbolic maximum ("0..15 max 2*n - 1"), be unbounded
/// ("1.."), or belong to a size that the run computes ("0..15 data"). States follow the ranges:
/// "states {output 1 -> input 0}".
std::string print(const Graph& graph, const PrintOptions& options = {});

/// The text of a constant after "= const ": "f32[2] {1, 0.5}".
std::string constant_text(const Tensor& tensor, const PrintOptions& options = {});

/// Constants printed as a hash, by that hash.
using ConstantPool = std::map<std::uint64_t, std::shared_ptr<const Tensor>>;
/// All constants of `graph` and of its bodies.
ConstantPool constant_pool(const Graph& graph);

/// Parses print()'s form. Types of nodes may be omitted; if present they must equal the inferred
/// ones. A constant may also be `const f32[4, 8] random(seed)` (normal deviates from a fixed
/// generator; for 8-bit integers 32 times as large, rounded) or `const f32[4] splat(0.5)`. Throws
/// Error(kInvalidModel) with line and column.
Graph parse_graph(std::string_view text, const ConstantPool& pool = {});

}  // namespace sinter::ir
