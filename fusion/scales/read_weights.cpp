// SPDX-License-Identifier: Apache-2.0
#include "fusion/scales/read_weights.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include <fmt/format.h>

#include "fusion/patterns/dequantization.h"
#include "fusion/regions/operand.h"
#include "fusion/scales/integer_reader.h"
#include "fusion/scales/rounding/float4.h"
#include "ir/affine.h"
#include "ir/scale_format.h"

namespace sinter::fusion {
namespace {

using ir::ScaledTensor;

/// With smaller groups, scales would take as much memory as the weights.
constexpr std::int64_t kLeastGroup = 8;

/// The offset, in elements, of an element of [k, n] in the tensor that contains it.
class Address {
 public:
  Address(const Graph& graph, const Element& element) {
    const Shape& shape = graph.type(element.value).shape;
    for (std::size_t d = 0; d < shape.size(); ++d) expr_ = expr_ * shape[d] + element.index[d];
    if (auto linear = ir::linear_form(expr_, symbols()); linear && linear->offset.is_constant() &&
                                                         linear->strides[0].is_constant() &&
                                                         linear->strides[1].is_constant())
      strides_ = {linear->offset.value(), linear->strides[0].value(), linear->strides[1].value()};
  }

  std::int64_t at(std::int64_t k, std::int64_t n) const {
    if (!strides_.empty()) return strides_[0] + k * strides_[1] + n * strides_[2];
    return expr_.evaluate({{symbols()[0], k}, {symbols()[1], n}});
  }

  /// True if it is a sum of a term in k and a term in n.
  bool is_separable() const {
    if (!strides_.empty()) return true;
    const Dim zero(0);
    const auto& [k, n] = std::pair(symbols()[0], symbols()[1]);
    const Dim of_k = expr_.substitute({{n, zero}}), of_n = expr_.substitute({{k, zero}});
    return expr_ == of_k + of_n - of_k.substitute({{k, zero}});
  }

  /// Number of consecutive k's, from 0 on, with equal address; 0 if all.
  std::int64_t group(std::int64_t k) const {
    if (!strides_.empty()) return strides_[1] == 0 || k <= 1 ? 0 : 1;
    const std::int64_t first = at(0, 0);
    std::int64_t group = 1;
    while (group < k && at(group, 0) == first) ++group;
    if (group >= k) return 0;
    for (std::int64_t i = group; i < k; ++i) {
      const bool begins = i % group == 0;
      if (begins == (at(i, 0) == at(i - 1, 0))) return 1;
    }
    return group;
  }

 private:
  static const std::vector<std::string>& symbols() {
    static const std::vector<std::string> names{ir::index_symbol(0), ir::index_symbol(1)};
    return names;
  }

  Dim expr_ = 0;
  Ints strides_;  // offset, along k, along n; empty if not linear
};

/// The line through the addresses at multiples of `step` along k, if they are on one.
std::optional<IntegerLine> line_of(const Address& address, std::int64_t k, std::int64_t step,
                                   std::int64_t n) {
  if (!address.is_separable()) return std::nullopt;
  const std::int64_t count = ir::group_count(k, step);
  IntegerLine line;
  line.offset = address.at(0, 0);
  if (count > 1) line.along_k = address.at(step, 0) - line.offset;
  if (n > 1) line.along_n = address.at(0, 1) - line.offset;
  for (std::int64_t i = 0; i < count; ++i)
    if (address.at(i * step, 0) != line.at(i, 0)) return std::nullopt;
  for (std::int64_t j = 0; j < n; ++j)
    if (address.at(0, j) != line.at(0, j)) return std::nullopt;
  return line;
}

/// Address by group.
struct GroupAddress {
  const Address* address;
  std::int64_t group;
  std::int64_t at(std::int64_t g, std::int64_t n) const { return address->at(g * group, n); }
};

Ints ints_of(const IntegerLine& line) { return {line.offset, line.along_k, line.along_n}; }
/// Reads the weights of a dequantization in a graph.
class Finder {
 public:
  Finder(const Graph& graph, ConstantValues& values, std::int64_t k, std::int64_t n)
      : graph_(graph), values_(values), k_(k), n_(n) {}

  std::optional<ScaledTensor> read(const Dequantization& found, const Tensor* columns,
                                   std::string& refusal) {
    Part parts[] = {part_of(found.scale, 1), part_of(found.zero, 0), part_of(found.shift, 0)};
    const Tensor& values = values_.tensor(found.weight.value);
    // Floats of 4 bits keep scales of 8 bits, and what these are multiplied by.
    std::optional<Tensor> factor;
    if (is_float8(values.dtype()) && columns == nullptr && !found.divides && found.scale)
      factor = take_factor(*found.scale, parts[0]);
    std::int64_t group = 0;
    for (const Part& part : parts) {
      if (!part.address) continue;
      if (!part.address->is_separable()) {
        refusal = "its scales are not one for each group of rows";
        return std::nullopt;
      }
      group = std::gcd(group, part.address->group(k_));
    }
    if (group != 0 && group < std::min(kLeastGroup, k_)) {
      refusal = fmt::format("its scales change every {} row(s) of the weights", group);
      return std::nullopt;
    }
    const Address address(graph_, found.weight);
    std::optional<ScaledTensor> result =
        read_lines(parts, found.divides, values, address, group, columns);
    if (!result) {
      refusal = "a scale of zero comes with a shift";
      return std::nullopt;
    }
    return is_float8(values.dtype()) ? with_narrow_scales(*std::move(result), factor) : result;
  }

 private:
  struct Part {
    const Tensor* tensor = nullptr;
    std::optional<Address> address;
    double number = 0;
  };

  Part part_of(const std::optional<Term>& term, double otherwise) {
    Part result;
    result.number = term ? term->number : otherwise;
    if (term && term->element) {
      result.tensor = &values_.tensor(term->element->value);
      result.address.emplace(graph_, *term->element);
    }
    return result;
  }

  /// Scales that are e4m3, perhaps times one number, as NVFP4 has them: `part` reads these codes.
  /// The number, if there is one.
  std::optional<Tensor> take_factor(const Term& scale, Part& part) {
    if (!scale.element) return std::nullopt;
    const Node* node = graph_.producer(scale.element->value);
    std::optional<Tensor> factor;
    if (node != nullptr && node->op->name == "Mul")
      for (const std::size_t i : {0, 1}) {
        const ValueId number = node->inputs[i];
        const Node* const other = graph_.producer(node->inputs[1 - i]);
        if (ir::element_count(graph_.type(number).shape) != Dim(1) || other == nullptr ||
            graph_.type(other->outputs[0]) != graph_.type(scale.element->value) ||
            graph_.type(number).dtype != DType::kFloat32)
          continue;
        factor = values_.tensor(number);
        node = other;
        break;
      }
    if (node == nullptr || node->op->name != "Cast" ||
        graph_.type(node->inputs[0]).dtype != DType::kFloat8E4M3FN)
      return std::nullopt;
    part.tensor = &values_.tensor(node->inputs[0]);
    return factor;
  }

  /// Uses kReadIntegers if all layouts are lines, which records how the weights are made.
  std::optional<ScaledTensor> read_lines(std::span<const Part> parts, bool divides,
                                         const Tensor& values, const Address& address,
                                         std::int64_t group, const Tensor* columns) {
    const auto line = line_of(address, k_, 1, n_);
    Attrs attrs{{"k", k_},
                {"n", n_},
                {"group", group},
                {"divides", std::int64_t{divides ? 1 : 0}},
                {"columns", std::int64_t{columns != nullptr ? 1 : 0}}};
    std::vector<Tensor> inputs{values};
    bool on_lines = line.has_value();
    for (std::size_t i = 0; i < kIntegerParts.size(); ++i) {
      const auto own = parts[i].address
                           ? line_of(*parts[i].address, k_, group == 0 ? k_ : group, n_)
                           : std::nullopt;
      on_lines = on_lines && own.has_value() == (parts[i].tensor != nullptr);
      attrs.set(kIntegerParts[i], own ? ints_of(*own) : Ints());
      attrs.set(std::string(kIntegerParts[i]) + "_number", parts[i].number);
      if (parts[i].tensor != nullptr) inputs.push_back(*parts[i].tensor);
    }
    if (!on_lines) return read_places(parts, divides, values, address, group, columns);
    if (columns != nullptr) inputs.push_back(*columns);
    attrs.set("values", ints_of(*line));
    std::vector<Tensor> made = ir::apply(kReadIntegers, attrs, inputs);
    if (made[0].at_int(0) == 0) return std::nullopt;
    std::optional<Tensor> zeros;
    if (made[0].at_int(2) >= 0) zeros = std::move(made[3]);
    if (is_float8(values.dtype()))
      return ir::scaled_rows_of(ir::float4_codes(), group, k_, std::move(made[1]),
                                std::move(made[2]), std::move(zeros));
    return ir::scaled_rows_of(static_cast<int>(made[0].at_int(1)), group, k_, std::move(made[1]),
                              std::move(made[2]), std::move(zeros));
  }

  std::optional<ScaledTensor> read_places(std::span<const Part> parts, bool divides,
                                          const Tensor& values, const Address& address,
                                          std::int64_t group, const Tensor* columns) {
    struct ValueAddress {
      const Address* address;
      std::int64_t at(std::int64_t k, std::int64_t n) const { return address->at(k, n); }
    };
    const auto numbers = [&](const Part& part) {
      return IntegerNumbers<GroupAddress>{
          part.tensor, {part.address ? &*part.address : nullptr, group}, part.number};
    };
    IntegerSource<ValueAddress, GroupAddress> source{k_,
                                                     n_,
                                                     group,
                                                     &values,
                                                     {&address},
                                                     numbers(parts[0]),
                                                     numbers(parts[1]),
                                                     numbers(parts[2]),
                                                     columns};
    source.scale.is_divisor = divides;
    return IntegerReader(source).read();
  }

  const Graph& graph_;
  ConstantValues& values_;
  std::int64_t k_, n_;
};

}  // namespace

std::optional<ScaledTensor> read_weights(const Graph& graph, ConstantValues& values,
                                         const Dequantization& found, std::int64_t k,
                                         std::int64_t n, const Tensor* columns,
                                         std::string& refusal) {
  return Finder(graph, values, k, n).read(found, columns, refusal);
}

std::vector<ValueId> add_weights(GraphBuilder& builder, const ScaledTensor& weights) {
  std::vector<ValueId> result;
  for (const Tensor& part : ir::parts_of(weights)) result.push_back(builder.constant(part));
  return result;
}

namespace {

/// Moves a gather of rows by `indices` before nodes that compute row by row.
class RowSink {
 public:
  RowSink(const Graph& graph, ConstantValues& values, GraphBuilder& builder, ValueId indices,
          Dim rows)
      : graph_(graph),
        values_(values),
        builder_(builder),
        indices_(indices),
        rows_(std::move(rows)) {}

  ValueId gathered(ValueId value) {
    const auto known = done_.find(value);
    if (known != done_.end()) return known->second;
    return done_[value] = gather(value);
  }

 private:
  bool has_rows(ValueId value, std::size_t rank) const {
    const Shape& shape = graph_.type(value).shape;
    return shape.size() == rank && !shape.empty() && shape[0] == rows_;
  }

  ValueId gather(ValueId value) {
    const Node* node = graph_.producer(value);
    if (node != nullptr && node->op->name == "Cast")
      if (const Tensor* rows = graph_.value(node->inputs[0]).constant.get();
          rows != nullptr && is_float4_table(*rows))
        return builder_.add("Cast", {add_gathered_float4(builder_, *rows, indices_)}, node->attrs);
    if (node != nullptr && node->op->kind == OpKind::kPointwise) {
      const std::size_t rank = graph_.type(value).shape.size();
      std::vector<ValueId> inputs;
      // Values that are the same for all rows broadcast.
      for (const ValueId input : node->inputs)
        inputs.push_back(has_rows(input, rank) ? gathered(input)
                                               : builder_.constant(values_.tensor(input)));
      return builder_.add(node->op->name, std::move(inputs), node->attrs);
    }
    if (node != nullptr && keeps_rows(*node)) return view(*node);
    return builder_.add("Gather", {builder_.constant(values_.tensor(value)), indices_},
                        {{"axis", std::int64_t{0}}});
  }

  /// True for a view that keeps rows and their indices.
  bool keeps_rows(const Node& node) const {
    const Shape &from = graph_.type(node.inputs[0]).shape, &to = graph_.type(node.outputs[0]).shape;
    if (from.empty() || to.empty() || from[0] != rows_ || to[0] != rows_) return false;
    if (node.op->name == "Slice")
      return node.attrs.get_dims("starts")[0] == Dim(0) && node.attrs.get_ints("steps")[0] == 1;
    return node.op->name == "Reshape" || (node.op->name == "Expand" && from.size() == to.size());
  }

  ValueId view(const Node& node) {
    const ValueId input = gathered(node.inputs[0]);
    const Shape gathered_shape = builder_.type(indices_).shape;
    const auto with_gathered = [&](auto list, auto dim) {
      list.erase(list.begin());
      for (std::size_t d = gathered_shape.size(); d-- > 0;) list.insert(list.begin(), dim(d));
      return list;
    };
    Attrs attrs = node.attrs;
    attrs.set("shape", with_gathered(node.attrs.get_dims("shape"),
                                     [&](auto d) { return gathered_shape[d]; }));
    if (node.op->name == "Slice") {
      attrs.set("starts",
                with_gathered(node.attrs.get_dims("starts"), [](auto) { return Dim(0); }));
      attrs.set("steps",
                with_gathered(node.attrs.get_ints("steps"), [](auto) { return std::int64_t{1}; }));
    }
    return builder_.add(node.op->name, {input}, std::move(attrs));
  }

  const Graph& graph_;
  ConstantValues& values_;
  GraphBuilder& builder_;
  ValueId indices_;
  Dim rows_;
  std::map<ValueId, ValueId> done_;
};

}  // namespace

std::optional<Piece> gather_integers(const Graph& graph, ConstantValues& values, const Node& node) {
  if (node.op->name != "Gather" || node.attrs.get_int("axis") != 0) return std::nullopt;
  const ValueId data = node.inputs[0], indices = node.inputs[1];
  if (graph.is_constant(data) || graph.type(data).shape.size() < 2 || values.knows(indices))
    return std::nullopt;
  if (!match_dequantization(graph, data, [&](ValueId value) { return values.knows(value); }))
    return std::nullopt;
  Piece piece;
  piece.reads = {indices};
  piece.writes = node.outputs;
  piece.emit = [&graph, &values, &node, data](GraphBuilder& builder,
                                              std::span<const ValueId> reads) {
    GraphBuilder::OriginScope scope(builder, node.origins);
    RowSink sink(graph, values, builder, reads[0], graph.type(data).shape[0]);
    return std::vector{sink.gathered(data)};
  };
  return piece;
}

namespace {

/// True for a cast of floats of 16 bits that changes no number.
bool is_widening(const Graph& graph, const Node& node) {
  if (node.op->name != "Cast") return false;
  const DType from = graph.type(node.inputs[0]).dtype, to = graph.type(node.outputs[0]).dtype;
  return (from == DType::kFloat16 || from == DType::kBFloat16) && to == DType::kFloat32;
}

}  // namespace

std::optional<ir::ScaledTensor> half_weights(const Graph& graph, const Context& context,
                                             const Node& node) {
  // Both would want the floats themselves.
  if (context.precision == Precision::kBFloat16 || context.eight_bit.type) return std::nullopt;
  ValueId value = node.inputs[1];
  bool is_transposed = false;
  const auto is_transpose = [](const Node& view) {
    return view.op->name == "Transpose" && view.attrs.get_ints("perm") == Ints{1, 0};
  };
  for (const Node* by = graph.producer(value); by != nullptr; by = graph.producer(value)) {
    if (is_transpose(*by))
      is_transposed = !is_transposed;
    else if (!is_widening(graph, *by))
      return std::nullopt;
    value = by->inputs[0];
  }
  const auto& stored = graph.value(value).constant;
  if (stored == nullptr || stored->shape().size() != 2) return std::nullopt;
  const DType type = stored->dtype();
  if (type != DType::kFloat16 && type != DType::kBFloat16) return std::nullopt;
  const Tensor rows = is_transposed ? *stored : transposed(*stored);
  const std::int64_t n = rows.shape()[0], k = rows.shape()[1];
  ir::ScaledTensor weights =
      ir::scaled_rows_of(ir::codes_stored_as(type), 0, k, rows,
                         Tensor::from_doubles(DType::kFloat32, {n, 1},
                                              std::vector<double>(static_cast<std::size_t>(n), 1)),
                         std::nullopt);
  if (!quantized_refusal(context.target, graph, node, graph.type(node.inputs[0]).dtype,
                         weights.format)
           .empty())
    return std::nullopt;
  return weights;
}

}  // namespace sinter::fusion
