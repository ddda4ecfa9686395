// What --precision fp16 and bf16 lower and what they keep.
//
//   float32 inputs and outputs of the model   keep their type, cast at the border
//   weights, activations, products            narrow
//   results of reductions, and what is        float32 (when fusing, where it costs nothing)
//   computed from them alone
//   integers made floats, and what is         float32: counts and positions must not be rounded
//   computed from them alone
//   integers, bool, float64                   as they are
//   constants beyond the narrow range         masks (1e8 and more): clamped; others: the node that
//                                             reads them is computed in float32
//   scalar constants that would underflow     the node that reads them is computed in float32
#pragma once

#include <optional>
#include <string>

#include "ir/graph.h"

namespace sinter::fusion {

struct NarrowedConstant {
  ir::Tensor tensor;
  std::int64_t clamped = 0;  // values that the narrow type cannot hold
  double example = 0;        // one of them
};

class LoweringPolicy {
 public:
  explicit LoweringPolicy(DType narrow);

  DType narrow() const { return narrow_; }
  /// A float32 constant in type `to`; finite values beyond the narrow type become its largest.
  NarrowedConstant clamp_constant(const ir::Tensor& constant, DType to) const;
  /// True if a value stands for minus (or plus) infinity.
  bool is_mask(const ir::Tensor& constant) const;
  /// Why `node` must not read one of its float32 constants in the narrow type, or nothing.
  std::optional<std::string> unfit_constant(const ir::Graph& graph, const ir::Node& node) const;

 private:
  DType narrow_;
  double largest_, smallest_normal_;
};

}  // namespace sinter::fusion
