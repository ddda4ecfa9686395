// SPDX-License-Identifier: Apache-2.0
// Floats of 4 bits as weights: found in wider constants, and as integers for targets without them.
#pragma once

#include <optional>
#include <vector>

#include "fusion/context.h"
#include "ir/scale_format.h"

namespace sinter::fusion {

/// The code of the float of 4 bits that each code of `type`, of 8 bits, is; -1: it is none.
std::vector<int> float4_codes_of(DType type);
/// True if all of `values`, of 8 bits, are floats of 4 bits.
bool are_float4(const Tensor& values);
/// True for rows of floats of 8 bits that are floats of 4, an even number each.
bool is_float4_table(const Tensor& rows);
/// The rows that `indices` name, as float32 of codes of 4 bits.
ValueId add_gathered_float4(GraphBuilder& builder, const Tensor& rows, ValueId indices);
/// With f32 scales that are powers of two as e8m0, and with `factor`, of scales that are e4m3, for
/// each row.
ir::ScaledTensor with_narrow_scales(ir::ScaledTensor weights, const std::optional<Tensor>& factor);
/// The same numbers, exactly: those of the codes in their units as int8, the scales times a unit.
ir::ScaledTensor as_integers(const ir::ScaledTensor& weights);

}  // namespace sinter::fusion
