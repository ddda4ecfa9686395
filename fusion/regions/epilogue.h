// SPDX-License-Identifier: Apache-2.0
// Epilogues: nodes after a matmul or convolution that can be computed when its result is stored.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fusion/context.h"
#include "fusion/regions/rebuild.h"

namespace sinter::fusion {

/// result = views(activation(alpha * product + bias + residual)). Bias and residual may be added in
/// either order, before the activation. A convolution has its bias as an operand, and no factor. A
/// matmul may be stored in another type, with only a factor: 16-bit operands as float32, fp8
/// operands (float32 sums) as 16 bits. Sums of 8-bit operands are stored as the result of a chain
/// of pointwise nodes if that is 16-bit floats: half the bytes.
struct Epilogue {
  double alpha = 1;
  std::optional<DType> cast;  // the stored type in these cases
  ValueId bias;               // a constant along the last dimension, or invalid
  ValueId residual;           // of the result's shape behind its views, or invalid
  std::vector<NodeId> residual_views;
  std::vector<NodeId> chain;  // the pointwise nodes after `chain_from`
  ValueId chain_from;
  std::string activation;           // operator name, or empty
  std::vector<double> parameters;   // the activation's operands after the first
  std::vector<NodeId> absorbed;     // nodes now part of the epilogue
  std::optional<NodeId> transpose;  // applied when the result is stored
  std::vector<NodeId> outer_views;  // reshapes after the stored result
  ValueId result;                   // the old value that the epilogue computes
};

struct EpilogueOptions {
  TargetTraits target;
  /// True for a value that another matmul reads through its own views (or factors), or as residual:
  /// it must be stored before these.
  std::function<bool(ValueId)> is_stored;
  std::function<void(const Node& producer, const Node& consumer, bool fused,
                     std::string_view reason)>
      decide;
};

/// Follows sole readers of the result of `node`, a matmul or a Conv. `alpha`: the factor of its
/// operands.
Epilogue match_epilogue(const Graph& graph, const Node& node, double alpha,
                        const EpilogueOptions& options);
/// Adds the epilogue after `product` to the body; returns the value to store.
ValueId build_epilogue(BodyBuilder& body, const Graph& graph, ValueId product,
                       const Epilogue& epilogue);
/// True if the target's matmuls support activation `op`.
bool has_activation(const TargetTraits& target, std::string_view op);
/// True if `value` is a constant vector along the last dimension of `shape`.
bool is_bias(const Graph& graph, ValueId value, const Shape& shape);

}  // namespace sinter::fusion
