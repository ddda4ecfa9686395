// SPDX-License-Identifier: Apache-2.0
// Matrix products.

#include <utility>

#include <fmt/format.h>
#include <sinter/error.h>

#include "ir/dim/dim_mismatch.h"
#include "ir/graph.h"
#include "ir/ops/ops.h"
#include "ir/reference/kernels.h"
#include "ir/scale_format.h"
#include "ir/scaled_rows.h"

namespace sinter::ir::ops {
namespace {

/// [batch..., m, k] x [batch..., k, n] -> [batch..., m, n]; the batch dimensions broadcast.
std::vector<TensorType> infer_plain(Types inputs) {
  const DType type = require_product_type(inputs);
  const Shape &a = inputs[0].shape, &b = inputs[1].shape;
  if (a.size() < 2 || b.size() < 2)
    invalid("needs two matrices (rank 2 or more), found " + list_types(inputs));
  require_equal(a.back(), b[b.size() - 2], [&] {
    return "the last dimension of the first input and the last but one of the second differ: " +
           list_types(inputs);
  });
  Shape shape = with_context(list_types(inputs), [&] {
    return broadcast(Shape(a.begin(), a.end() - 2), Shape(b.begin(), b.end() - 2));
  });
  shape.push_back(a[a.size() - 2]);
  shape.push_back(b.back());
  return {{type, shape}};
}

bool is_scale(DType type) { return is_arithmetic_float(type) && type != DType::kFloat64; }

void require_part(Types inputs, std::size_t i, DType type, const Shape& shape, const char* what) {
  if (inputs[i].dtype != type || inputs[i].shape != shape)
    invalid(fmt::format("{} must be {} of {}, found {}", what, sinter::ir::to_string(shape),
                        sinter::to_string(type), list_types(inputs)));
}

/// Throws unless x is valid with weights in format `w`: a 16- or 32-bit float, e4m3 with 4-bit
/// weights, or a format whose scales change at the same k as those of the weights.
void require_left(const ProductFormats& formats, Types inputs) {
  const ScaleFormat& w = *formats.w;
  const DType type = inputs[0].dtype;
  if (!formats.x) {
    if (!is_scale(type) && !(type == DType::kFloat8E4M3FN && w.codes == &integer_codes(4)))
      invalid(fmt::format("weights of '{}' need x of f16, bf16 or f32{}; found {}", w.to_string(),
                          w.codes == &integer_codes(4) ? ", or of f8e4m3fn" : "",
                          list_types(inputs)));
    const bool is_taken = w.codes->bits != 8 || is_scaled_row_type(w.codes->stored);
    if (w.rows != 1 || !is_taken)
      invalid(fmt::format("weights of '{}' need an x with a format", w.to_string()));
    return;
  }
  const ScaleFormat& x = *formats.x;
  if (!x.codes->is_float || !w.codes->is_float || x.zero || w.zero || x.rows != 1 || x.depth == 0 ||
      x.depth != w.depth || w.rows == 0 || x.scale != DType::kFloat32 || w.scale != DType::kFloat32)
    invalid(
        fmt::format("operands of '{}' and '{}' are not floats of 8 bits with f32 scales for "
                    "the same blocks of k",
                    x.to_string(), w.to_string()));
  if (type != x.codes->stored)
    invalid(fmt::format("x of '{}' must be {}, found {}", x.to_string(),
                        sinter::to_string(x.codes->stored), list_types(inputs)));
}

/// x [batch..., m, k] and w [n, k] in its format -> [batch..., m, n]. The result has x's type, or
/// f32 if x has 8 bits.
std::vector<TensorType> infer_scaled(const ProductFormats& formats, Types inputs) {
  if (inputs.size() != formats.input_count())
    invalid(fmt::format("its formats need {} inputs, found {}", formats.input_count(),
                        list_types(inputs)));
  const ScaleFormat& w = *formats.w;
  const Shape &x = inputs[0].shape, &weight = inputs[1].shape;
  if (x.size() < 2 || weight.size() != 2 || !x.back().is_constant() || !weight[0].is_constant())
    invalid("needs x [.., m, k] and weights [n, k] whose k and n are known, found " +
            list_types(inputs));
  // Scales of 8 bits are those of floats of 4.
  const bool is_narrow =
      (w.scale == DType::kFloat8E4M3FN || w.scale == DType::kUInt8) && w.codes->numbers != nullptr;
  if (!(is_scale(w.scale) || is_narrow) ||
      (w.zero && *w.zero != DType::kInt8 && *w.zero != DType::kFloat32) ||
      (w.zero && w.codes->is_float) || (w.has_factors && !is_narrow) ||
      (w.offset && (!is_scale(*w.offset) || formats.x || w.rows != 1)))
    invalid(
        fmt::format("weights of '{}': scales are f16, bf16 or f32, of 4-bit floats also f8e4m3fn "
                    "or e8m0, which may have factors; zero points of integers are i8 or f32; "
                    "offsets of groups are f16, bf16 or f32",
                    w.to_string()));
  require_left(formats, inputs);
  const std::int64_t k = x.back().value(), n = weight[0].value();
  require_part(inputs, 1, w.codes->stored, {Dim(n), Dim(w.pitch(k))}, "weights");
  if (formats.x) {
    if (k % w.depth != 0) invalid(fmt::format("k of {} is no multiple of {}", k, w.depth));
    Shape of_rows = x;
    of_rows.back() = Dim(formats.x->groups(k));
    require_part(inputs, 2, formats.x->scale, of_rows, "scales of x");
  }
  const Shape grouped{Dim(w.row_groups(n)), Dim(w.groups(k))};
  require_part(inputs, formats.weight_scales(), w.scale, grouped, "scales");
  if (w.zero) require_part(inputs, formats.weight_scales() + 1, *w.zero, grouped, "zero points");
  if (w.has_factors)
    require_part(inputs, formats.weight_scales() + 1, DType::kFloat32, {Dim(n), Dim(1)}, "factors");
  if (w.offset) require_part(inputs, inputs.size() - 1, *w.offset, grouped, "offsets");
  TensorType result = inputs[0];
  if (is_float8(result.dtype)) result.dtype = DType::kFloat32;
  result.shape.back() = weight[0];
  return {result};
}

std::vector<TensorType> infer_matmul(const Attrs& attrs, Types inputs) {
  const ProductFormats formats(attrs);
  if (formats.w) return infer_scaled(formats, inputs);
  if (formats.x || inputs.size() != 2)
    invalid("needs two inputs, or a format for the right one, found " + list_types(inputs));
  return infer_plain(inputs);
}

// ---- GroupedMatMul(x [rows, k], w [groups, k, n], .., offsets): rows offsets[g] to offsets[g + 1]
// times matrix g; other rows are zero. If "transposed", w is [groups, n, k]; so it is in a format,
// and its scales etc. follow it as a MatMul's do, each with the groups in front. The offsets are
// the last input, at least groups + 1 ascending numbers.

std::vector<TensorType> infer_grouped(const Attrs& attrs, Types inputs) {
  const ProductFormats formats(attrs);
  const TensorType& offsets = inputs.back();
  if (offsets.dtype != DType::kInt32 || offsets.shape.size() != 1)
    invalid("offsets must be a vector of i32, found " + list_types(inputs));
  if (inputs[0].shape.size() != 2 || inputs[1].shape.size() != 3)
    invalid("needs x [rows, k] and weights of a matrix for each group, found " +
            list_types(inputs));
  const Dim& groups = inputs[1].shape[0];
  if (!groups.is_constant() || groups.value() < 1 || !offsets.shape[0].is_constant() ||
      offsets.shape[0].value() <= groups.value())
    invalid("offsets must be one more than the groups, both known, found " + list_types(inputs));
  std::vector<TensorType> one(inputs.begin(), inputs.end() - 1);  // group's matmul
  for (std::size_t i = 1; i < one.size(); ++i) {
    if (one[i].shape.empty() || one[i].shape[0] != groups)
      invalid("each group needs weights, scales and zero points, found " + list_types(inputs));
    one[i].shape.erase(one[i].shape.begin());
  }
  std::vector<TensorType> result;
  const bool is_transposed = attrs.get_int("transposed") != 0;
  if (is_transposed) std::swap(one[1].shape[0], one[1].shape[1]);
  if (formats.w) {
    if (is_transposed) invalid("weights in a format are [n, k]; 'transposed' says nothing of them");
    if (formats.x || formats.w->rows != 1)
      invalid(fmt::format("weights of '{}' have no scales for each row, or x has a format",
                          formats.w->to_string()));
    result = infer_scaled(formats, one);
  } else {
    if (formats.x || one.size() != 2)
      invalid("needs a format for more than x, weights and offsets, found " + list_types(inputs));
    result = infer_plain(one);
  }
  if (!is_float(result[0].dtype) && result[0].dtype != DType::kInt32)
    invalid("needs floats, or integers of 8 bits, found " + list_types(inputs));
  return result;
}

/// Dequantizes scaled weights to the result's type and multiplies plain matrices.
std::vector<ValueId> decompose_matmul(GraphBuilder& b, const Node& node,
                                      std::span<const ValueId> inputs) {
  if (!has_scaled_weights(node))
    return {b.add("MatMul", {inputs.begin(), inputs.end()}, node.attrs)};
  std::vector<Tensor> operands;
  for (const ValueId input : inputs.subspan(1)) {
    const Tensor* constant = b.constant_of(input);
    if (constant == nullptr)
      throw Error(ErrorCode::kUnsupported, "quantized weights that are no constants");
    operands.push_back(*constant);
  }
  const TensorType x = b.type(inputs[0]);
  const DType type = is_float8(x.dtype) ? DType::kFloat32 : x.dtype;
  const ScaledTensor weights = weights_of(node.attrs, operands, x.shape.back().value());
  const ValueId weight = b.constant(dequantized(weights, type));
  const ValueId rows = x.dtype == type ? inputs[0] : b.add("Cast", {inputs[0]}, {{"to", type}});
  return {b.add("MatMul", {rows, b.add("Transpose", {weight}, {{"perm", Ints{1, 0}}})})};
}

}  // namespace

std::vector<OpDef> matmul_ops() {
  return {{.name = "MatMul",
           .kind = OpKind::kLibrary,
           .kernel = "matmul",
           .min_inputs = 2,
           .max_inputs = 6,
           .attrs = {{"x", AttrKind::kString, Attr(std::string())},
                     {"w", AttrKind::kString, Attr(std::string())},
                     {kMayRound, AttrKind::kInt, Attr(std::int64_t{0})}},
           .infer = infer_matmul,
           .evaluate = reference::evaluate_matmul,
           .detail = CompositeDef{decompose_matmul}},
          {.name = "GroupedMatMul",
           .kind = OpKind::kLibrary,
           .kernel = "grouped_matmul",
           .min_inputs = 3,
           .max_inputs = 7,
           .attrs = {{"transposed", AttrKind::kInt, Attr(std::int64_t{0})},
                     {"w", AttrKind::kString, Attr(std::string())}},
           .infer = infer_grouped,
           .evaluate = reference::evaluate_grouped_matmul}};
}

}  // namespace sinter::ir::ops
