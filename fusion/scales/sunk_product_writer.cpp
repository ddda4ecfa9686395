// SPDX-License-Identifier: Apache-2.0
#include "fusion/scales/sunk_product_writer.h"

#include <algorithm>

#include "fusion/regions/rebuild.h"
#include "fusion/scales/grouped_weights.h"
#include "fusion/transforms.h"

namespace sinter::fusion {

Ints summed_axes(const Node& node, bool is_left, std::size_t rank) {
  const auto last = static_cast<std::int64_t>(rank) - 1;
  const bool is_grouped = node.op->name == "GroupedMatMul";
  const bool is_last = is_left || (is_grouped && node.attrs.get_int("transposed") != 0);
  if (node.op->name != "Conv") return {is_last ? last : last - 1};
  Ints axes;
  for (std::int64_t d = 1; d <= last; ++d) axes.push_back(d);
  return axes;
}

namespace {

/// Adds the nodes of one matmul or convolution.
class ProductWriter {
 public:
  ProductWriter(GraphBuilder& builder, const Graph& graph, const SunkProduct& product)
      : b_(builder), graph_(graph), p_(product), rank_(rank_of(product.node->outputs[0])) {}

  ValueId write(const ProductInputs& in) {
    ValueId x = values(p_.x, in.x);
    if (!p_.w) {
      std::vector<ValueId> inputs{x};
      inputs.insert(inputs.end(), in.weights.begin(), in.weights.end());
      return converted(b_.add("MatMul", std::move(inputs), p_.node->attrs), in);
    }
    const ValueId w = values(*p_.w, in.w);
    const std::optional<ValueId> x_zero = zero(p_.x, in.x_zero), w_zero = zero(*p_.w, in.w_zero);
    x = padded(x, x_zero);
    std::vector<ValueId> operands{x, w};
    if (p_.is_grouped()) operands.push_back(in.offsets);
    ValueId result = b_.add(p_.node->op->name, std::move(operands), attrs_);
    if (x_zero) {
      // sum (x - z) w = sum x w - z sum w
      const ValueId by = add_folded(b_, "Mul", {*x_zero, as_result(sums(w, false))});
      result = b_.add("Sub", {result, by});
    }
    if (w_zero) {
      // ... minus the zero point of w times sum (x - z).
      const ValueId rows = p_.is_conv() ? sums_of_windows(x, w, x_zero) : sums_of_rows(x, x_zero);
      result = b_.add("Sub", {result, b_.add("Mul", {rows, as_result(*w_zero)})});
    }
    return converted(result, in);
  }

 private:
  /// The sums as the node's result.
  ValueId converted(ValueId result, const ProductInputs& in) {
    const DType type = graph_.type(p_.node->outputs[0]).dtype;
    if (is_integer(type)) return with_bias(result, in.bias);
    if (b_.type(result).dtype != DType::kFloat32)
      result = b_.add("Cast", {result}, {{"to", DType::kFloat32}});
    for (const ValueId scale : scales(in)) result = b_.add("Mul", {result, scale});
    result = with_bias(result, in.bias);
    return type == DType::kFloat32 ? result : b_.add("Cast", {result}, {{"to", type}});
  }

  std::size_t rank_of(ValueId old) const { return graph_.type(old).shape.size(); }
  std::size_t rank_of_new(ValueId value) const { return b_.type(value).shape.size(); }

  ValueId values(const SunkOperand& operand, ValueId value) {
    if (operand.difference) value = b_.constant(*operand.difference);
    if (operand.shifted) value = shifted(value);
    return place_values(b_, graph_, operand.found, value);
  }

  /// u8 minus 128, as i8.
  ValueId shifted(ValueId value) {
    if (const Tensor* constant = b_.constant_of(value)) {
      const Tensor inputs[] = {*constant, Tensor::scalar(DType::kInt32, kUnsignedShift)};
      return b_.constant(ir::apply(kIntegerDifference, {}, inputs).at(1));
    }
    const ValueId wide = b_.add("Cast", {value}, {{"to", DType::kInt32}});
    return b_.add("Cast", {b_.add("Sub", {wide, b_.scalar(DType::kInt32, kUnsignedShift)})},
                  {{"to", DType::kInt8}});
  }

  /// The zero point as int32, as it broadcasts to the operand.
  std::optional<ValueId> zero(const SunkOperand& operand, ValueId value) {
    if (!operand.has_zero && !operand.shifted) return std::nullopt;
    ValueId result = b_.scalar(DType::kInt32, 0);
    if (operand.has_zero) {
      result = place_parameter(b_, graph_, operand.found, *operand.found.zero, value);
      if (b_.type(result).dtype != DType::kInt32)
        result = add_folded(b_, "Cast", {result}, {{"to", DType::kInt32}});
    }
    if (operand.shifted)
      result = add_folded(b_, "Sub", {result, b_.scalar(DType::kInt32, kUnsignedShift)});
    if (splat_value(b_, result) == 0.0) return std::nullopt;
    return result;
  }

  /// Padding of a convolution represents zero: it pads with the zero point.
  ValueId padded(ValueId x, const std::optional<ValueId>& zero) {
    attrs_ = p_.node->attrs;
    if (!p_.is_conv() || !zero) return x;
    const Ints &begin = attrs_.get_ints("pads_begin"), &end = attrs_.get_ints("pads_end");
    const auto is_zero = [](std::int64_t pad) { return pad == 0; };
    if (std::ranges::all_of(begin, is_zero) && std::ranges::all_of(end, is_zero)) return x;
    std::vector<Dim> begins(2, Dim(0)), ends(2, Dim(0));
    begins.insert(begins.end(), begin.begin(), begin.end());
    ends.insert(ends.end(), end.begin(), end.end());
    Attrs pad{{"begins", begins}, {"ends", ends}};
    attrs_.set("pads_begin", Ints(begin.size(), 0));
    attrs_.set("pads_end", Ints(end.size(), 0));
    if (const Tensor* known = b_.constant_of(*zero)) {
      pad.set("fill", known->at(0));
      return b_.add("Pad", {x}, std::move(pad));
    }
    // For a zero point computed at run time: pads the difference with zeros.
    const DType type = b_.type(x).dtype;
    const ValueId wide = b_.add("Cast", {x}, {{"to", DType::kInt32}});
    pad.set("fill", 0.0);
    const ValueId all = b_.add("Pad", {b_.add("Sub", {wide, *zero})}, std::move(pad));
    return b_.add("Cast", {b_.add("Add", {all, *zero})}, {{"to", type}});
  }

  ValueId sums_of_rows(ValueId x, const std::optional<ValueId>& zero) {
    ValueId wide = b_.add("Cast", {x}, {{"to", DType::kInt32}});
    if (zero) wide = b_.add("Sub", {wide, *zero});
    return reduced(wide, summed_axes(*p_.node, true, rank_of_new(x)));
  }

  /// The sum of each window of a group of channels, for every output channel.
  ValueId sums_of_windows(ValueId x, ValueId w, const std::optional<ValueId>& zero) {
    const std::int64_t groups = attrs_.get_int("group");
    const Shape weights = b_.type(w).shape;
    Ints shape{groups};
    std::int64_t taps = 1;
    for (std::size_t d = 1; d < weights.size(); ++d) {
      shape.push_back(weights[d].value());
      taps *= shape.back();
    }
    const std::vector<std::int8_t> ones(static_cast<std::size_t>(groups * taps), 1);
    ValueId sums = b_.add("Conv", {x, b_.constant(Tensor::of(DType::kInt8, shape, ones))}, attrs_);
    if (zero)
      sums = b_.add(
          "Sub", {sums, add_folded(b_, "Mul",
                                   {*zero, b_.scalar(DType::kInt32, static_cast<double>(taps))})});
    if (groups == 1 || weights[0] == Dim(groups)) return sums;
    Shape all = b_.type(sums).shape, split = all, spread;
    split.insert(split.begin() + 2, Dim(1));
    spread = split;
    spread[2] = ir::floor_div(weights[0], Dim(groups));
    all[1] = weights[0];
    sums = b_.add("Reshape", {sums}, {{"shape", split}});
    return b_.add("Reshape", {b_.add("Expand", {sums}, {{"shape", spread}})}, {{"shape", all}});
  }

  ValueId reduced(ValueId value, Ints axes) {
    return b_.add("ReduceSum", {value}, {{"axes", std::move(axes)}, {"keepdims", std::int64_t{1}}});
  }

  /// The sums of the right operand.
  ValueId sums(ValueId w, bool is_left) {
    const Ints axes = summed_axes(*p_.node, is_left, rank_of_new(w));
    const Node* view = b_.producer(w);
    // For transposed weights, sums the untransposed ones.
    if (view != nullptr && view->op->name == "Transpose" && b_.constant_of(view->inputs[0])) {
      const Ints perm = view->attrs.get_ints("perm");
      Ints own;
      for (const std::int64_t axis : axes) own.push_back(perm[static_cast<std::size_t>(axis)]);
      const ValueId of_constant = summed(view->inputs[0], own);
      return add_folded(b_, "Transpose", {of_constant}, {{"perm", perm}});
    }
    if (view != nullptr && view->op->name == "Reshape")
      if (const Tensor* constant = b_.constant_of(view->inputs[0])) {
        Ints shape;
        for (const Dim& dim : b_.type(w).shape) shape.push_back(dim.value());
        return summed(b_.constant(constant->reshaped(shape)), axes);
      }
    return summed(w, axes);
  }

  ValueId summed(ValueId value, Ints axes) {
    if (const Tensor* constant = b_.constant_of(value))
      return b_.constant(
          ir::apply(kIntegerSums, {{"axes", std::move(axes)}}, std::span(constant, 1)).at(0));
    return reduced(b_.add("Cast", {value}, {{"to", DType::kInt32}}), std::move(axes));
  }

  /// Reshapes a parameter of the right operand so that it broadcasts to the result: output channels
  /// of a convolution, [m, 1 ..]; columns of a matmul, [n], with its batch.
  ValueId as_result(ValueId value) {
    const Shape own = b_.type(value).shape;
    if (own.empty()) return value;
    Shape shape;
    if (p_.is_conv()) {
      shape.assign(rank_ - 1, Dim(1));
      shape[0] = own[0];
    } else {
      const auto first =
          std::find_if(own.begin(), own.end() - 1, [](const Dim& dim) { return dim != Dim(1); });
      shape.assign(first, own.end());
    }
    if (shape == own) return value;
    return add_folded(b_, "Reshape", {value}, {{"shape", shape}});
  }

  /// Row and column scales multiply the sums one after the other: their product would be as large
  /// as the result.
  std::vector<ValueId> scales(const ProductInputs& in) {
    const auto scale = [&](const SunkOperand& operand, ValueId value) {
      const ValueId placed =
          place_parameter(b_, graph_, operand.found, *operand.found.scale, value);
      return b_.type(placed).dtype == DType::kFloat32
                 ? placed
                 : add_folded(b_, "Cast", {placed}, {{"to", DType::kFloat32}});
    };
    std::vector<ValueId> result;
    if (p_.x.found.scale) result.push_back(scale(p_.x, in.x_scale));
    if (p_.w && p_.w->found.scale) {
      const ValueId of_w = scale(*p_.w, in.w_scale);
      result.push_back(p_.is_grouped() ? of_groups(of_w, in) : as_result(of_w));
    }
    if (result.size() < 2) return result;
    const auto is_number = [&](ValueId value) { return b_.type(value).shape.empty(); };
    if (is_number(result[0]) || is_number(result[1]))
      return {add_folded(b_, "Mul", {result[0], result[1]})};
    return result;
  }

  /// Scales of a grouped matmul's weights, [groups, n, 1] or [groups, 1, n], for each row; or one
  /// number.
  ValueId of_groups(ValueId value, const ProductInputs& in) {
    const Shape own = b_.type(value).shape;
    if (own.empty()) return value;
    const Dim groups = graph_.type(p_.node->inputs[1]).shape[0], columns = own[1] * own[2];
    if (own[0] == Dim(1)) return add_folded(b_, "Reshape", {value}, {{"shape", Shape{columns}}});
    const ValueId matrix = add_folded(b_, "Reshape", {value}, {{"shape", Shape{own[0], columns}}});
    const ValueId group = group_of_rows(b_, in.offsets, b_.type(in.x).shape[0], groups.value());
    return b_.add("Gather", {matrix, group}, {{"axis", std::int64_t{0}}});
  }

  ValueId with_bias(ValueId value, ValueId bias) {
    if (!bias.valid()) return value;
    const DType type = b_.type(value).dtype;
    if (b_.type(bias).dtype != type) bias = add_folded(b_, "Cast", {bias}, {{"to", type}});
    return b_.add("Add", {value, as_result(bias)});
  }

  GraphBuilder& b_;
  const Graph& graph_;
  const SunkProduct& p_;
  const std::size_t rank_;  // of the result
  Attrs attrs_;
};

}  // namespace

ValueId write_product(GraphBuilder& builder, const Graph& graph, const SunkProduct& product,
                      const ProductInputs& inputs) {
  return ProductWriter(builder, graph, product).write(inputs);
}

}  // namespace sinter::fusion
