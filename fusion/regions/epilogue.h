// What follows a matrix product or a convolution and can be done as its result is stored.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fusion/context.h"
#include "fusion/regions/rebuild.h"

namespace sinter::fusion {

/// result = views(activation(alpha * product + bias + residual)). Bias and residual add in either
/// order; both come before the activation. A convolution has its bias as an operand, and no factor.
/// A product that is wanted in another type, one of 16-bit floats in float32 or one of 8-bit
/// floats, whose sums are float32, in 16 bits, is stored so, with no more than a factor. Sums of
/// operands of 8 bits are stored as what a chain of pointwise nodes makes of them, if that is
/// 16-bit floats: half the bytes.
struct Epilogue {
  double alpha = 1;
  std::optional<DType> cast;  // the type, where that is so
  ValueId bias;               // a constant along the last dimension, or invalid
  ValueId residual;           // of the product's shape, or invalid
  std::vector<NodeId> chain;  // those nodes, of `chain_from`
  ValueId chain_from;
  std::string activation;           // operator name, or empty
  std::vector<double> parameters;   // the activation's operands behind the first
  std::vector<NodeId> absorbed;     // nodes that are now part of the product
  std::optional<NodeId> transpose;  // the result is stored through it
  std::vector<NodeId> outer_views;  // reshapes that follow the stored result
  ValueId result;                   // the old value that the whole yields
};

struct EpilogueOptions {
  TargetTraits target;
  /// True for a value that another product reads through views (or factors) of its own, or adds as
  /// its residual: it has to be stored before those.
  std::function<bool(ValueId)> is_stored;
  std::function<void(const Node& producer, const Node& consumer, bool fused,
                     std::string_view reason)>
      decide;
};

/// Follows the single readers of the result of `node`, a matrix product or a Conv. `alpha`: the
/// factor of its operands.
Epilogue match_epilogue(const Graph& graph, const Node& node, double alpha,
                        const EpilogueOptions& options);
/// Adds the epilogue behind `product` in the body; returns what is to be stored.
ValueId build_epilogue(BodyBuilder& body, const Graph& graph, ValueId product,
                       const Epilogue& epilogue);
/// True if the target's products end with activation `op`.
bool has_activation(const TargetTraits& target, std::string_view op);
/// True if `value` is a constant vector along the last dimension of `shape`.
bool is_bias(const Graph& graph, ValueId value, const Shape& shape);

}  // namespace sinter::fusion
