// Graphs as text. parse(print(g)) is structurally equal to g.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "ir/graph.h"

namespace sinter::ir {

struct PrintOptions {
  bool origins = true;             // "  # from Conv_12" after nodes
  std::size_t inline_limit = 16;   // constants with more elements print as a hash: #0123456789abcdef
};

/// One line a node, bodies of fused nodes indented in braces:
///
///   graph @main(%ids: i64[batch, seq]) ranges {batch: 1..64, seq: 1..512} {
///     %w = const f32[384] #1f2e3d4c5b6a7988
///     %2 = Gather(%w0, %ids) {axis = 0} : f32[batch, seq, 384]  # from embeddings/Gather
///     %3, %4 = Fused(%2, %w) {family = "row_reduction"} : f32[batch, seq, 384], f32[batch] body {
///       ...
///     }
///     return embedding = %3
///   }
std::string print(const Graph& graph, const PrintOptions& options = {});

/// Constants that print as a hash, by that hash.
using ConstantPool = std::map<std::uint64_t, std::shared_ptr<const Tensor>>;
/// All constants of `graph` and of its bodies.
ConstantPool constant_pool(const Graph& graph);

/// Parses what print prints. A constant may also be written `const f32[4, 8] random(seed)` (normal
/// deviates from a fixed generator) or `const f32[4] splat(0.5)`. Throws Error(kInvalidModel) with
/// line and column.
Graph parse_graph(std::string_view text, const ConstantPool& pool = {});

}  // namespace sinter::ir
