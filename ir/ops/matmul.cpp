// SPDX-License-Identifier: Apache-2.0
// Matrix products.

#include <fmt/format.h>
#include <sinter/error.h>

#include "ir/dim/dim_mismatch.h"
#include "ir/graph.h"
#include "ir/ops/ops.h"
#include "ir/quantized.h"
#include "ir/reference/kernels.h"

namespace sinter::ir::ops {
namespace {

/// [batch..., m, k] x [batch..., k, n] -> [batch..., m, n]; the batch dimensions broadcast.
std::vector<TensorType> infer_matmul(const Attrs&, Types inputs) {
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

}  // namespace

std::vector<OpDef> matmul_ops() {
  return {{.name = "MatMul",
           .kind = OpKind::kLibrary,
           .kernel = "matmul",
           .min_inputs = 2,
           .max_inputs = 2,
           .infer = infer_matmul,
           .evaluate = reference::evaluate_matmul}};
}

namespace {

/// x [batch..., m, k], weight [n, k] of i8 or, without zero points, f8e4m3fn, or [n, ceil(k / 2)]
/// of u8, scales and zero points [n, groups] -> [batch..., m, n] of x's type. With 4-bit weights x
/// may be f8e4m3fn, with f32 sums.
std::vector<TensorType> infer_quant_matmul(const Attrs& attrs, Types inputs) {
  const Shape &x = inputs[0].shape, &weight = inputs[1].shape;
  const std::int64_t bits = attrs.get_int("bits"), group = attrs.get_int("group");
  const DType type = inputs[0].dtype;
  const bool is_narrow = type == DType::kFloat8E4M3FN && bits == 4;
  if (!is_narrow) require_float(inputs);
  if (bits != 4 && bits != 8) invalid(fmt::format("weights have 4 or 8 bits, not {}", bits));
  if (group < 0) invalid(fmt::format("groups of {} elements", group));
  if (x.size() < 2 || weight.size() != 2 || !x.back().is_constant() || !weight[0].is_constant())
    invalid("needs x [.., m, k] and weights [n, k] whose k and n are known, found " +
            list_types(inputs));
  const std::int64_t k = x.back().value();
  const bool are_floats = inputs[1].dtype == DType::kFloat8E4M3FN && inputs.size() == 3;
  const DType stored = bits == 4 ? DType::kUInt8 : are_floats ? DType::kFloat8E4M3FN : DType::kInt8;
  if (type == DType::kFloat64 || inputs[1].dtype != stored ||
      weight[1] != Dim(bits == 8 ? k : (k + 1) / 2))
    invalid(fmt::format(
        "{} columns of x need {}-bit weights [n, {}] of {}, and x of f16, bf16 or f32{}; found {}",
        k, bits, bits == 8 ? k : (k + 1) / 2, sinter::to_string(stored),
        bits == 4 ? ", or of f8e4m3fn" : "", list_types(inputs)));
  const Shape grouped{weight[0], Dim(group_count(k, group))};
  const auto is_scale = [](DType type) {
    return is_arithmetic_float(type) && type != DType::kFloat64;
  };
  if (inputs[2].shape != grouped || !is_scale(inputs[2].dtype))
    invalid(fmt::format("scales must be {} of f16, bf16 or f32, found {}",
                        sinter::ir::to_string(grouped), list_types(inputs)));
  if (inputs.size() > 3 && (inputs[3].shape != grouped || (inputs[3].dtype != DType::kInt8 &&
                                                           inputs[3].dtype != DType::kFloat32)))
    invalid(fmt::format("zero points must be {} of i8 or f32, found {}",
                        sinter::ir::to_string(grouped), list_types(inputs)));
  TensorType result = inputs[0];
  if (is_narrow) result.dtype = DType::kFloat32;
  result.shape.back() = weight[0];
  return {result};
}

/// A MatMul with weights dequantized here to the result's type.
std::vector<ValueId> decompose_quant_matmul(GraphBuilder& b, const Node& node,
                                            std::span<const ValueId> inputs) {
  std::vector<Tensor> operands;
  for (const ValueId input : inputs.subspan(1)) {
    const Tensor* constant = b.constant_of(input);
    if (constant == nullptr)
      throw Error(ErrorCode::kUnsupported, "quantized weights that are no constants");
    operands.push_back(*constant);
  }
  const TensorType x = b.type(inputs[0]);
  const DType type = is_float8(x.dtype) ? DType::kFloat32 : x.dtype;
  const QuantizedWeights weights = weights_of(node.attrs, operands, x.shape.back().value());
  const ValueId weight = b.constant(dequantized(weights, type));
  const ValueId rows = x.dtype == type ? inputs[0] : b.add("Cast", {inputs[0]}, {{"to", type}});
  return {b.add("MatMul", {rows, b.add("Transpose", {weight}, {{"perm", Ints{1, 0}}})})};
}

}  // namespace

std::vector<OpDef> quant_matmul_ops() {
  return {{.name = "QuantMatMul",
           .kind = OpKind::kLibrary,
           .kernel = "matmul",
           .min_inputs = 3,
           .max_inputs = 4,
           .attrs = {{"bits", AttrKind::kInt, Attr(std::int64_t{8})},
                     {"group", AttrKind::kInt, Attr(std::int64_t{0})}},
           .infer = infer_quant_matmul,
           .evaluate = reference::evaluate_quant_matmul,
           .detail = CompositeDef{decompose_quant_matmul}}};
}

namespace {

/// x [batch..., m, k] and weights [k, n], both 8-bit floats; f32 scales of x [batch..., m, k /
/// block] and of weights [ceil(n / columns), k / block] -> [batch..., m, n] of f32.
std::vector<TensorType> infer_block_matmul(const Attrs& attrs, Types inputs) {
  const DType type = require_product_type(inputs);
  const Shape &x = inputs[0].shape, &weight = inputs[1].shape;
  const std::int64_t block = attrs.get_int("block"), columns = attrs.get_int("columns");
  if (type != DType::kFloat32 || size_of(inputs[0].dtype) != 1)
    invalid("needs floats of 8 bits, found " + list_types(inputs));
  if (block < 1 || columns < 1)
    invalid(fmt::format("blocks of {} elements by {} columns", block, columns));
  if (x.size() < 2 || weight.size() != 2 || x.back() != weight[0] || !weight[0].is_constant() ||
      !weight[1].is_constant() || weight[0].value() % block != 0)
    invalid(
        fmt::format("needs x [.., m, k] and weights [k, n] whose k, a multiple of {}, and n are "
                    "known, found {}",
                    block, list_types(inputs)));
  Shape of_rows = x;
  of_rows.back() = Dim(weight[0].value() / block);
  const Shape of_weights{Dim((weight[1].value() + columns - 1) / columns), of_rows.back()};
  if (inputs[2].shape != of_rows || inputs[3].shape != of_weights ||
      inputs[2].dtype != DType::kFloat32 || inputs[3].dtype != DType::kFloat32)
    invalid(fmt::format("scales must be {} and {} of f32, found {}", sinter::ir::to_string(of_rows),
                        sinter::ir::to_string(of_weights), list_types(inputs)));
  Shape shape = x;
  shape.back() = weight[1];
  return {{DType::kFloat32, shape}};
}

}  // namespace

std::vector<OpDef> block_matmul_ops() {
  return {{.name = "BlockMatMul",
           .kind = OpKind::kLibrary,
           .kernel = "matmul",
           .min_inputs = 4,
           .max_inputs = 4,
           .attrs = {{"block", AttrKind::kInt, Attr(std::int64_t{128})},
                     {"columns", AttrKind::kInt, Attr(std::int64_t{128})}},
           .infer = infer_block_matmul,
           .evaluate = reference::evaluate_block_matmul}};
}

}  // namespace sinter::ir::ops
