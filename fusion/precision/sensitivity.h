// SPDX-License-Identifier: Apache-2.0
// Finds the float32 values of a graph that must not be rounded to 16 bits: the cone above operators
// that declare so for their operands (`ir::Numerics`).
//
// A *computed* value depends on a matmul, a convolution or another operator of heavy arithmetic.
// Other values depend only on inputs, constants and integers, such as angles of rotary embeddings
// and of time steps. Their cone is kept whole, as a few operators on few elements cost nothing. The
// cone of a computed value ends at the matmul that computes it:
//
//   absolute     not kept: masks and sines of activations would keep whole networks float32
//   exponent     kept if it has no other reader, when fusing; the matmul stores its accumulators
//   index        kept whatever other readers it has: boxes and durations are small
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fusion/context.h"

namespace sinter::fusion {

/// A matmul of at most 16 terms for each element is no heavy arithmetic: outer products of
/// positions and frequencies, grids times affine matrices.
inline constexpr std::int64_t kFewTerms = 16;

enum class Kept : std::uint8_t {
  kNo,
  kExact,   // computed in float32, from float32 values
  kLogits,  // the same, because an exponential reads it
  kMatmul,  // a matmul of narrow operands that stores its float32 accumulators
};

struct Sensitivity {
  std::vector<Kept> nodes;           // by position of the node
  std::vector<bool> inputs;          // by position: read by a kept node, or its operator
  std::vector<std::string> readers;  // by position: for kExact, the operators that require it
  std::map<std::size_t, std::shared_ptr<const Sensitivity>> bodies;  // of loops, by position
  std::map<std::size_t, std::vector<bool>> states;                   // of loops: the kept ones

  bool keeps(std::size_t node) const { return nodes[node] != Kept::kNo; }
};

/// `logits`: whether to keep values that only exponentials read (when fusing: unfused, each such
/// node would be a kernel that reads and writes float32).
Sensitivity find_sensitivity(const Graph& graph, bool logits);

/// By position of the graph's inputs: true if angles are computed elementwise from it, as from
/// positions and time steps.
std::vector<bool> find_angle_inputs(const Graph& graph);

}  // namespace sinter::fusion
