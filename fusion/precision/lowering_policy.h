// SPDX-License-Identifier: Apache-2.0
// Which values --precision fp16 and bf16 lower to the narrow type.
//
//   float32 inputs and outputs of the model   keep their type; casts at the model's border
//   weights, activations, results of matmuls  narrow
//   results of reductions, and values         float32 when fusing, where it costs nothing
//   computed only from them
//   inputs of an exponential or a Softmax:    float32 when fusing: a rounding error of the argument
//   logits, masks, the matmul before them     scales the result, and large logits overflow
//   angles, coordinates, thresholds, indices  float32, with the values that they are computed from
//   as floats: declared by operators for      (sensitivity.h): their absolute error matters, and
//   their operands (ir::Numerics)             float16 rounds 4,097 to 4,096
//   powers and exponentials                   float32 if the narrow type has a smaller range: their
//                                             sums are divisors of normalisations
//   integers cast to float, and values        float32: counts and positions must be exact
//   computed only from them
//   integers, bool, float64                   unchanged
//   constants beyond the narrow range         masks (1e8 and more): unchanged if their reader is
//                                             float32, else clamped; others: their reader is
//                                             computed in float32
//   scalar constants that would underflow     their reader is computed in float32
//   states of loops                           narrow if the next state is narrow; float32 if an
//                                             iteration adds to the state, as errors would
//                                             accumulate (an LSTM's cell; its output is narrow)
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
