// Which float32 values of a graph must not be rounded to 16 bits: the cone above operators that say
// so of their operands (`ir::Numerics`).
//
// A *computed* value depends on a matmul, a convolution or another operator of heavy arithmetic.
// What is not computed follows from inputs, constants and integers alone, as the angles of rotary
// embeddings and of time steps do: its cone is kept whole, since a handful of operators on few
// elements costs nothing. The cone of a computed value ends at the matmul that makes it:
//
//   absolute     not kept: masks and sines of activations would keep whole networks float32
//   exponent     while nobody else reads it, when fusing; the matmul stores its float32 sums
//   index        whoever else reads it: boxes and durations are small
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fusion/context.h"

namespace sinter::fusion {

/// A matmul of at most 16 terms an element is no heavy arithmetic: outer products of positions
/// and frequencies, grids times affine matrices.
inline constexpr std::int64_t kFewTerms = 16;

enum class Kept : std::uint8_t {
  kNo,
  kExact,   // computed in float32, of what is float32
  kLogits,  // the same, because an exponential reads it
  kMatmul,  // a matmul of narrow operands that stores its float32 accumulators
};

struct Sensitivity {
  std::vector<Kept> nodes;           // by position
  std::vector<bool> inputs;          // by position: a kept node, or its operator, reads it
  std::vector<std::string> readers;  // by position: of kExact, the operators that it is kept for
  std::map<std::size_t, std::shared_ptr<const Sensitivity>> bodies;  // of loops, by position
  std::map<std::size_t, std::vector<bool>> states;                   // of loops: which are kept

  bool keeps(std::size_t node) const { return nodes[node] != Kept::kNo; }
};

/// `logits`: whether what exponentials alone read is kept (when fusing: unfused, each of these
/// nodes would be a kernel that reads and writes float32).
Sensitivity find_sensitivity(const Graph& graph, bool logits);

/// By position of the graph's inputs: true if angles are made of it element by element, as of
/// positions and time steps.
std::vector<bool> find_angle_inputs(const Graph& graph);

}  // namespace sinter::fusion
