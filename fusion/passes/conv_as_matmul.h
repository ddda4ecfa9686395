#pragma once

#include <span>

#include "fusion/context.h"
#include "ir/graph.h"

namespace sinter::fusion {

/// a [.., m, k] x b [.., k, n]: MatMul, or where the target has none for the elements' type the sum
/// over k of [.., m, 1, k] * [.., 1, n, k].
ir::ValueId matrix_product(ir::GraphBuilder& builder, const TargetTraits& target, ir::ValueId a,
                           ir::ValueId b);

/// A convolution as a product of unfolded windows and weights:
///
///   x [n, c, d..]  -> Unfold  [n, c, k.., o..] -> [n, (g,) c/g*k, o] -> transposed [.., o, c/g*k]
///   w [m, c/g, k..] ->         [(g,) m/g, c/g*k]                     -> transposed [.., c/g*k,
///   m/g] product [n, (g,) o, m/g] + bias -> transposed [n, (g,) m/g, o] -> [n, m, o..]
///
/// Windows are the rows of the product, so that the bias runs along its columns, where libraries
/// add it; the transposes become strides. `result` is the convolution's type.
ir::ValueId conv_as_matmul(ir::GraphBuilder& builder, const TargetTraits& target,
                           const ir::Node& node, std::span<const ir::ValueId> inputs,
                           const ir::TensorType& result);

}  // namespace sinter::fusion
