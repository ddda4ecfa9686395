// SPDX-License-Identifier: Apache-2.0
// Reference evaluation of operators on concrete tensors. The storage types of inputs are free: an
// f32 value may be held as f64 (EvaluateOptions::keep_wide). Floats are computed in float64 and
// rounded once, to the output's storage type.
#pragma once

#include <span>
#include <vector>

#include "ir/op_def.h"

namespace sinter::ir::reference {

/// `tensor` as `dtype` (floats only, or no change).
Tensor convert(const Tensor& tensor, DType dtype);
/// The shape of a type whose dimensions are constants.
Ints concrete_shape(const Shape& shape);

/// The result of combining no elements, floats in .f and integers in .i.
Scalar identity_of(Combine combine, DType type);
ScalarOp op_of(Combine combine);

/// `types` are the inputs' declared types, `result` the declared result type; `output` is the
/// storage type. All shapes are concrete.
Tensor evaluate_pointwise(const PointwiseDef& def, const Attrs& attrs, Tensors inputs,
                          std::span<const DType> types, DType result, const TensorType& output);
Tensor evaluate_reduce(const ReduceDef& def, const Attrs& attrs, const Tensor& input, DType type,
                       const TensorType& output);
Tensor evaluate_view(const OpDef& op, const Attrs& attrs, Tensors inputs, const TensorType& output);
/// Like evaluate_view, but element by element through the index map: the definition, slowly.
Tensor evaluate_index_map(const OpDef& op, const Attrs& attrs, Tensors inputs,
                          const TensorType& output);

// OpDef::evaluate of the other operators.
using Evaluator = std::vector<Tensor>(const Attrs& attrs, Tensors inputs, Types outputs);
Evaluator evaluate_gather, evaluate_take, evaluate_scatter, evaluate_iota, evaluate_size,
    evaluate_group_by_index, evaluate_last_by_index, evaluate_combine_groups,
    evaluate_combine_table, evaluate_route, evaluate_grouped_matmul, evaluate_arg_sort,
    evaluate_matmul, evaluate_attention, evaluate_conv, evaluate_layer_norm, evaluate_rms_norm,
    evaluate_variance, evaluate_softmax;
std::vector<Tensor> evaluate_scan(Combine combine, const Attrs& attrs, Tensors inputs,
                                  Types outputs);

}  // namespace sinter::ir::reference
