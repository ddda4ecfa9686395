// What --precision fp16 and bf16 lower and what they keep.
//
//   float32 inputs and outputs of the model   keep their type, cast at the border
//   weights, activations, products            narrow
//   results of reductions, and what is        float32 (when fusing, where it costs nothing)
//   computed from them alone
//   what an exponential (or Softmax) reads:   float32 (when fusing): a rounded argument is a wrong
//   logits, masks, the matmul that made       factor of the result, and large logits overflow
//   them
//   angles, coordinates, thresholds, indices  float32, with all that they are computed from
//   as floats: what an operator says of its   (sensitivity.h): an error of such a value counts
//   operands (ir::Numerics)                   absolutely, and 16 bits hold 4,097 as 4,096
//   powers and exponentials                   float32 where the narrow type has less range: their
//                                             sums are what normalisation divides by
//   integers made floats, and what is         float32: counts and positions must not be rounded
//   computed from them alone
//   integers, bool, float64                   as they are
//   constants beyond the narrow range         masks (1e8 and more): as they are where what reads
//                                             them stays float32, else clamped; others: the node
//                                             that reads them is computed in float32
//   scalar constants that would underflow     the node that reads them is computed in float32
//   states of loops                           narrow, as the value is that an iteration hands on;
//                                             float32 where an iteration adds to what it was given:
//                                             rounding would add up (the cell of an LSTM; its
//                                             output passes through a product and is narrow)
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "fusion/context.h"

namespace sinter::fusion {

struct NarrowedConstant {
  Tensor tensor;
  std::int64_t clamped = 0;  // values beyond the narrow type's range
  double example = 0;        // one of them
};

class LoweringPolicy {
 public:
  explicit LoweringPolicy(DType narrow);

  DType narrow() const { return narrow_; }
  /// A float32 constant in type `to`; finite values beyond the narrow type's range are clamped to
  /// it.
  NarrowedConstant clamp_constant(const Tensor& constant, DType to) const;
  /// True if a value represents minus (or plus) infinity.
  bool is_mask(const Tensor& constant) const;
  /// Why the result of pointwise `node` may exceed the narrow type though its operands do not, or
  /// nothing. bfloat16 has float32's range.
  std::optional<std::string> overflow_reason(const Graph& graph, const Node& node) const;
  /// Why `node` must not read one of its float32 constants in the narrow type, or nothing.
  std::optional<std::string> unfit_constant(const Graph& graph, const Node& node) const;

 private:
  DType narrow_;
  double largest_, smallest_normal_;
};

/// The accumulations of a loop: float32 states that depend elementwise on their own old value, by
/// more than a selection, and the body's nodes on that path.
struct Accumulation {
  std::vector<bool> states, nodes;
};
/// `body`: of a While with `states` states.
Accumulation find_accumulation(const Graph& body, std::size_t states);

}  // namespace sinter::fusion
