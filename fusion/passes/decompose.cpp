// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "fusion/passes/passes.h"
#include "fusion/regions/attention_access.h"
#include "fusion/regions/operand.h"
#include "fusion/regions/rebuild.h"
#include "fusion/scales/read_weights.h"
#include "fusion/scales/rounding/float4.h"
#include "ir/constants/fourier.h"
#include "ir/ops/product_types.h"
#include "ir/reference/kernels.h"
#include "ir/scale_format.h"

namespace sinter::fusion {
namespace {

ValueId reshape(GraphBuilder& builder, ValueId value, Shape shape) {
  if (builder.type(value).shape == shape) return value;
  return builder.add("Reshape", {value}, {{"shape", std::move(shape)}});
}

/// Swaps the last two dimensions.
ValueId transpose(GraphBuilder& builder, ValueId value) {
  Ints perm(builder.type(value).shape.size());
  for (std::size_t d = 0; d < perm.size(); ++d) perm[d] = static_cast<std::int64_t>(d);
  std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  return builder.add("Transpose", {value}, {{"perm", std::move(perm)}});
}

bool all_equal(const Ints& values, std::int64_t expected) {
  return std::ranges::all_of(values, [&](auto v) { return v == expected; });
}

/// a [.., m, k] x b [.., k, n]: a MatMul or, if the target has none for the type, the sum over k of
/// [.., m, 1, k] * [.., 1, n, k]. 8-bit operands that the target cannot multiply are first widened
/// to the accumulators' type.
ValueId matrix_product(GraphBuilder& builder, const TargetTraits& target, ValueId a, ValueId b) {
  const DType left = builder.type(a).dtype, right = builder.type(b).dtype;
  if (target.sums("MatMul", left, right) != nullptr) return builder.add("MatMul", {a, b});
  if (const auto sums = ir::product_type(left, right); sums && *sums != left)
    return matrix_product(builder, target, builder.add("Cast", {a}, {{"to", *sums}}),
                          builder.add("Cast", {b}, {{"to", *sums}}));
  if (target.has_integer_matmul || !is_integer(builder.type(a).dtype))
    return builder.add("MatMul", {a, b});
  const auto with_one = [&](ValueId value, std::ptrdiff_t from_end) {
    Shape shape = builder.type(value).shape;
    shape.insert(shape.end() - from_end, Dim(1));
    return reshape(builder, value, std::move(shape));
  };
  const ValueId products = builder.add("Mul", {with_one(a, 1), with_one(transpose(builder, b), 2)});
  const auto last = static_cast<std::int64_t>(builder.type(products).shape.size()) - 1;
  return builder.add("ReduceSum", {products},
                     {{"axes", Ints{last}}, {"keepdims", std::int64_t{0}}});
}

/// A convolution as a matmul of unfolded windows and weights:
///
///   x [n, c, d..]  -> Unfold  [n, c, k.., o..] -> [n, (g,) c/g*k, o] -> transposed [.., o, c/g*k]
///   w [m, c/g, k..] ->         [(g,) m/g, c/g*k]                     -> transposed [.., c/g*k,
///   m/g] product [n, (g,) o, m/g] + bias -> transposed [n, (g,) m/g, o] -> [n, m, o..]
///
/// Windows are the matmul's rows, so that the bias runs along its columns, where libraries add it;
/// the transposes become strides. `result` is the convolution's type.
ValueId conv_as_matmul(GraphBuilder& builder, const TargetTraits& target, const Node& node,
                       std::span<const ValueId> inputs, const TensorType& result) {
  const Shape x = builder.type(inputs[0]).shape, w = builder.type(inputs[1]).shape;
  const std::int64_t group = node.attrs.get_int("group");
  Dim taps = w[1], windows(1);
  Ints kernel;
  for (std::size_t d = 2; d < w.size(); ++d) {
    kernel.push_back(w[d].value());
    taps *= w[d];
    windows *= result.shape[d];
  }
  const auto& strides = node.attrs.get_ints("strides");
  ValueId unfolded = inputs[0];
  const bool plain = all_equal(kernel, 1) && all_equal(strides, 1) &&
                     all_equal(node.attrs.get_ints("pads_begin"), 0) &&
                     all_equal(node.attrs.get_ints("pads_end"), 0);
  if (!plain)
    unfolded = builder.add("Unfold", {inputs[0]},
                           {{"kernel", kernel},
                            {"strides", strides},
                            {"dilations", node.attrs.get_ints("dilations")},
                            {"pads_begin", node.attrs.get_ints("pads_begin")},
                            {"pads_end", node.attrs.get_ints("pads_end")}});
  const bool grouped = group != 1;
  const Dim channels = ir::floor_div(w[0], Dim(group));
  const Shape rows = grouped ? Shape{x[0], Dim(group), taps, windows} : Shape{x[0], taps, windows};
  const Shape columns = grouped ? Shape{Dim(group), channels, taps} : Shape{w[0], taps};
  const ValueId windows_by_taps = transpose(builder, reshape(builder, unfolded, rows));
  const ValueId taps_by_channels = transpose(builder, reshape(builder, inputs[1], columns));
  ValueId value = matrix_product(builder, target, windows_by_taps, taps_by_channels);
  if (inputs.size() > 2) {
    const ValueId bias =
        grouped ? reshape(builder, inputs[2], {Dim(group), Dim(1), channels}) : inputs[2];
    value = builder.add("Add", {value, bias});
  }
  return reshape(builder, transpose(builder, value), result.shape);
}

// Kernel parameters are limited: more tensors are joined in several steps.
constexpr std::size_t kMostJoined = 32;

ValueId join_in_steps(GraphBuilder& builder, const Node& concat, std::span<const ValueId> inputs) {
  std::vector<ValueId> parts(inputs.begin(), inputs.end());
  while (parts.size() > 1) {
    std::vector<ValueId> joined;
    for (std::size_t i = 0; i < parts.size(); i += kMostJoined) {
      const auto first = parts.begin() + static_cast<std::ptrdiff_t>(i);
      const auto count = static_cast<std::ptrdiff_t>(std::min(kMostJoined, parts.size() - i));
      joined.push_back(count == 1 ? *first
                                  : builder.add("Concat", {first, first + count}, concat.attrs));
    }
    parts = std::move(joined);
  }
  return parts[0];
}

/// Replacement of a convolution.
enum class ConvForm {
  kOwn,      // the target supports its types, in some layout
  kWidened,  // 16-bit floats, for targets that have float32
  kProduct
};

ConvForm conv_form(const Context& context, const Graph& graph, const Node& node) {
  const TargetTraits& target = context.target;
  if (has_eight_bit_operands(graph, node)) {
    const bool is_own =
        multiplies_narrow(target, graph, node) && (context.fuse || !target.conv_as_kernels);
    return is_own ? ConvForm::kOwn : ConvForm::kProduct;
  }
  const DType type = graph.type(node.outputs[0]).dtype;
  if (target.conv_any_float && context.fuse && is_float(type)) return ConvForm::kOwn;
  if (target.has_conv && type == DType::kFloat32) return ConvForm::kOwn;
  const bool is_half = type == DType::kFloat16 || type == DType::kBFloat16;
  return target.has_conv && is_half ? ConvForm::kWidened : ConvForm::kProduct;
}

/// ConvForm::kWidened: widens the operands and rounds the result once.
ValueId widened_conv(GraphBuilder& builder, const Node& node, std::span<const ValueId> inputs) {
  std::vector<ValueId> operands;
  for (const ValueId input : inputs) {
    const Tensor* constant = builder.constant_of(input);
    operands.push_back(constant
                           ? builder.constant(ir::reference::convert(*constant, DType::kFloat32))
                           : builder.add("Cast", {input}, {{"to", DType::kFloat32}}));
  }
  return builder.add("Cast", {builder.add("Conv", std::move(operands), node.attrs)},
                     {{"to", builder.type(inputs[0]).dtype}});
}

bool has_attention(const Context& context, const Graph& graph, const Node& node) {
  return attention_refusal(context, graph.types(node.inputs)).empty();
}

/// Whether a kernel of ours computes the Fourier transform.
bool has_transform(const TargetTraits& target, const Graph& graph, const Node& node) {
  const DType type = graph.type(node.inputs[0]).dtype;
  return target.generates_kernels && size_of(type) <= size_of(DType::kFloat32) &&
         !ir::transform_radices(node.attrs.get_int("length")).empty();
}

/// Why no kernel of the target computes the LinearAttention; empty if one does. Its formats name
/// queries and the update rule.
std::string recurrence_refusal(const TargetTraits& target, const Graph& graph, const Node& node) {
  const std::string& rule = node.attrs.get_string("rule");
  const DType type = graph.type(node.inputs[0]).dtype;
  const ir::OperandFormats* const row = target.takes("LinearAttention", type, rule, false);
  if (row == nullptr)
    return fmt::format("this target has no kernel for states of tokens in {} with the rule {}",
                       to_string(type), rule);
  const auto is_wide = [&](ValueId value) {
    return size_of(graph.type(value).dtype) > size_of(DType::kFloat32);
  };
  if (std::ranges::any_of(node.inputs, is_wide) || std::ranges::any_of(node.outputs, is_wide))
    return "kernels for states of tokens take floats of up to 32 bits";
  if (row->most == INT64_MAX) return "";
  const Dim &keys = graph.type(node.inputs[1]).shape[3],
            &values = graph.type(node.inputs[2]).shape[3];
  if (!keys.is_constant() || !values.is_constant() || keys.value() < 1 || values.value() < 1 ||
      keys.value() > row->most)
    return fmt::format("this target's kernels hold states of known sizes, of up to {} rows",
                       row->most);
  return "";
}

bool has_routing(const TargetTraits& target, const Graph& graph, const Node& node) {
  const TensorType& logits = graph.type(node.inputs[0]);
  const ir::OperandFormats* const row =
      target.takes("Route", logits.dtype, to_string(logits.dtype), false);
  return row != nullptr && logits.shape[1].value() <= row->most &&
         (node.inputs.size() == 1 ||
          target.first_of("Route", false, graph.type(node.inputs[1]).dtype) != nullptr);
}

/// The matmul with float weights, which are dequantized here.
std::vector<ValueId> dequantize(GraphBuilder& builder, Context& context, const Node& node,
                                std::span<const ValueId> inputs, const std::string& refusal) {
  decide(context, node, node, false, refusal + ": they are dequantized at compile time");
  return node.op->composite().decompose(builder, node, inputs);
}

ValueId cast(GraphBuilder& builder, ValueId value, DType to) {
  return builder.type(value).dtype == to ? value : builder.add("Cast", {value}, {{"to", to}});
}

/// x times the transpose of `offsets` [n, groups] of groups of `depth`: sums of x by group times
/// these, in float32.
ValueId offset_product(GraphBuilder& builder, const TargetTraits& target, ValueId x,
                       const Tensor& offsets, std::int64_t depth) {
  const auto wide = [&](ValueId value) { return cast(builder, value, DType::kFloat32); };
  Shape shape = builder.type(x).shape;
  shape.back() = Dim(offsets.shape()[1]);
  shape.emplace_back(depth);
  const ValueId sums =
      builder.add("ReduceSum", {reshape(builder, wide(x), shape)},
                  {{"axes", Ints{std::ssize(shape) - 1}}, {"keepdims", std::int64_t{0}}});
  return matrix_product(builder, target, sums, transpose(builder, wide(builder.constant(offsets))));
}

/// The matmul with weights in a format that the target multiplies: integers of 8 bits for codes of
/// 4, and a product of sums for offsets. Nothing if there is none, or weights are not constant.
std::optional<std::vector<ValueId>> in_known_format(GraphBuilder& builder,
                                                    const TargetTraits& target, const Graph& graph,
                                                    const Node& node,
                                                    std::span<const ValueId> inputs) {
  const TensorType& x = graph.type(node.inputs[0]);
  const ir::ScaleFormat own = *ir::ProductFormats(node.attrs).w;
  const std::int64_t k = x.shape.back().value(), depth = own.depth == 0 ? k : own.depth;
  ir::ScaleFormat wanted = own;
  wanted.offset.reset();
  const bool is_integer = !quantized_refusal(target, graph, node, x.dtype, wanted).empty();
  if (is_integer) wanted.codes = &ir::integer_codes(8);
  if ((is_integer && own.codes->numbers == nullptr) || (own.offset && k % depth != 0) ||
      !quantized_refusal(target, graph, node, x.dtype, wanted).empty())
    return std::nullopt;
  std::vector<Tensor> operands;
  for (const ValueId input : inputs.subspan(1)) {
    if (builder.constant_of(input) == nullptr) return std::nullopt;
    operands.push_back(*builder.constant_of(input));
  }
  const ir::ScaledTensor weights = ir::weights_of(node.attrs, operands, k);
  ir::ScaledTensor plain = ir::without_offsets(weights);
  if (is_integer) plain = as_integers(plain);
  std::vector<ValueId> parts{inputs[0]};
  for (const ValueId part : add_weights(builder, plain)) parts.push_back(part);
  ValueId result = builder.add("MatMul", std::move(parts), ir::product_attrs(plain.format));
  if (weights.offsets) {
    const DType type = builder.type(result).dtype;
    const ValueId offsets = offset_product(builder, target, inputs[0], *weights.offsets, depth);
    result =
        cast(builder, builder.add("Add", {cast(builder, result, DType::kFloat32), offsets}), type);
  }
  return std::vector{result};
}

/// Options that keep quantized weights, if x's type is the obstacle.
std::string ways_out(const Context& context) {
  std::string options;
  for (const auto& [type, option] :
       {std::pair(DType::kFloat16, "fp16"), {DType::kBFloat16, "bf16"}})
    if (context.target.first_of("MatMul", true, type) != nullptr)
      options += fmt::format("{}--precision {}", options.empty() ? "; " : " or ", option);
  const bool is_lowered =
      context.precision == Precision::kFloat16 || context.precision == Precision::kBFloat16;
  return is_lowered || options.empty() ? "" : options + " keeps them in few bits";
}

}  // namespace

Graph decompose(const Graph& graph, Context& context) {
  std::map<std::string, std::size_t> dequantized;  // matmuls, by the reason for dequantizing their
                                                   // weights
  Graph result = ir::rewrite(
      graph,
      [&](GraphBuilder& builder, const Graph& old, const Node& node,
          std::span<const ValueId> inputs) -> std::optional<std::vector<ValueId>> {
        if (node.op->kind == OpKind::kComposite && context.fuse)
          return node.op->composite().decompose(builder, node, inputs);
        if (ir::has_scaled_weights(node))
          if (const std::string no =
                  quantized_refusal(context.target, old, node, old.type(node.inputs[0]).dtype);
              !no.empty()) {
            if (auto known = in_known_format(builder, context.target, old, node, inputs))
              return known;
            ++dequantized[no];
            return dequantize(builder, context, node, inputs, no);
          }
        if (node.op->name == "Attention" && !has_attention(context, old, node))
          return node.op->composite().decompose(builder, node, inputs);
        if (node.op->name == "Route" && !has_routing(context.target, old, node))
          return node.op->composite().decompose(builder, node, inputs);
        if (node.op->name == "LinearAttention")
          if (const std::string no = recurrence_refusal(context.target, old, node); !no.empty()) {
            decide(context, node, node, false, no + ": it is a loop over tokens");
            return node.op->composite().decompose(builder, node, inputs);
          }
        if (node.op->name == "Dft" && !has_transform(context.target, old, node))
          return node.op->composite().decompose(builder, node, inputs);
        if (node.op->name == "Conv") {
          switch (conv_form(context, old, node)) {
            case ConvForm::kOwn: return std::nullopt;
            case ConvForm::kWidened: return std::vector{widened_conv(builder, node, inputs)};
            case ConvForm::kProduct:
              return std::vector{
                  conv_as_matmul(builder, context.target, node, inputs, old.type(node.outputs[0]))};
          }
        }
        if (ir::is_plain_matmul(node))
          return std::vector{matrix_product(builder, context.target, inputs[0], inputs[1])};
        if (node.op->name == "Concat" && inputs.size() > kMostJoined)
          return std::vector{join_in_steps(builder, node, inputs)};
        return std::nullopt;
      });
  for (const auto& [why, products] : dequantized)
    context.precision_notes.push_back(
        fmt::format("the quantized weights of {} product{} are floats in the plan: {}{}", products,
                    products == 1 ? "" : "s", why, ways_out(context)));
  // What attention is made of is composite, too.
  const bool is_left = context.fuse && std::ranges::any_of(result.nodes(), [](const Node& node) {
                         return node.op->kind == OpKind::kComposite;
                       });
  return is_left ? decompose(result, context) : result;
}

}  // namespace sinter::fusion
