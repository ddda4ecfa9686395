#include "fusion/quantize/read_weights.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include <fmt/format.h>

#include "fusion/patterns/dequantization.h"
#include "ir/affine.h"

namespace sinter::fusion {
namespace {

using ir::QuantizedWeights;

/// Groups below it would make scales as large as what they scale.
constexpr std::int64_t kLeastGroup = 8;

/// Where an element of [k, n] lies in the tensor that it is read from, in elements.
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

  /// True if it is the sum of what k and what n say.
  bool is_separable() const {
    if (!strides_.empty()) return true;
    const Dim zero(0);
    const auto& [k, n] = std::pair(symbols()[0], symbols()[1]);
    const Dim of_k = expr_.substitute({{n, zero}}), of_n = expr_.substitute({{k, zero}});
    return expr_ == of_k + of_n - of_k.substitute({{k, zero}});
  }

  /// How many k in a row, from the first on, share an address: all of them is 0.
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
  Ints strides_;  // offset, along k, along n; empty: it is not linear
};

/// A number for each element of [k, n].
struct Numbers {
  const Tensor* tensor = nullptr;  // null: `number` everywhere
  std::optional<Address> address;
  double number = 0;
  bool is_divisor = false;

  double at(std::int64_t k, std::int64_t n) const {
    const double found = tensor != nullptr ? tensor->at(address->at(k, n)) : number;
    return is_divisor ? 1 / found : found;
  }
};

class Reader {
 public:
  Reader(const Graph& graph, ConstantValues& values, std::int64_t k, std::int64_t n)
      : graph_(graph), values_(values), k_(k), n_(n) {}

  std::optional<QuantizedWeights> read(const Dequantization& found,
                                       const std::vector<double>& column_scale,
                                       std::string& refusal) {
    QuantizedWeights result;
    result.k = k_;
    const Numbers scale = numbers(found.scale, 1, found.divides), zero = numbers(found.zero, 0),
                  shift = numbers(found.shift, 0);
    std::int64_t group = 0;
    for (const Numbers* part : {&scale, &zero, &shift}) {
      if (!part->address) continue;
      if (!part->address->is_separable()) {
        refusal = "its scales are not one for each group of rows";
        return std::nullopt;
      }
      group = std::gcd(group, part->address->group(k_));
    }
    if (group != 0 && group < std::min(kLeastGroup, k_)) {
      refusal = fmt::format("its scales change every {} row(s) of the weights", group);
      return std::nullopt;
    }
    result.group = group;
    const Element& weight = found.weight;
    read_values(values_.tensor(weight.value), Address(graph_, weight), result);
    if (!read_parameters(scale, zero, shift, column_scale, result)) {
      refusal = "a scale of zero comes with a shift";
      return std::nullopt;
    }
    return result;
  }

 private:
  Numbers numbers(const std::optional<Term>& term, double otherwise, bool is_divisor = false) {
    Numbers result;
    result.is_divisor = is_divisor;
    result.number = term ? term->number : otherwise;
    if (term && term->element) {
      result.tensor = &values_.tensor(term->element->value);
      result.address.emplace(graph_, *term->element);
    }
    return result;
  }

  /// The numbers themselves; `offset_` is what they are less than the model's own.
  void read_values(const Tensor& tensor, const Address& address, QuantizedWeights& result) {
    const bool is_signed = tensor.dtype() == DType::kInt8;
    const ir::HeldBytes held = tensor.hold();
    const auto* from = reinterpret_cast<const std::uint8_t*>(held.bytes.data());
    const auto value = [&](std::int64_t at) {
      return is_signed ? static_cast<int>(static_cast<std::int8_t>(from[at])) : int{from[at]};
    };
    int low = 255, high = -128;
    for (std::int64_t i = 0; i < tensor.element_count(); ++i) {
      low = std::min(low, value(i));
      high = std::max(high, value(i));
    }
    const bool narrow = is_signed ? low >= -8 && high <= 7 : high <= 15;
    result.bits = narrow ? 4 : 8;
    offset_ = is_signed ? 0 : narrow ? 8 : 128;
    const bool in_place = is_signed && !narrow && tensor.element_count() == k_ * n_ &&
                          address.at(0, 0) == 0 && (k_ == 1 || address.at(1, 0) == 1) &&
                          (n_ == 1 || address.at(0, 1) == k_) &&
                          address.at(k_ - 1, n_ - 1) == k_ * n_ - 1;
    if (in_place) {
      result.values = tensor.reshaped({n_, k_});
      return;
    }
    std::vector<std::int8_t> values(static_cast<std::size_t>(k_ * n_));
    // In strips of columns: weights often lie the other way round.
    constexpr std::int64_t kStrip = 64;
    for (std::int64_t first = 0; first < n_; first += kStrip)
      for (std::int64_t k = 0; k < k_; ++k)
        for (std::int64_t n = first; n < std::min(n_, first + kStrip); ++n)
          values[static_cast<std::size_t>(n * k_ + k)] =
              static_cast<std::int8_t>(value(address.at(k, n)) - offset_);
    result.values =
        narrow ? ir::pack_four_bits(values, n_, k_) : Tensor::of(DType::kInt8, {n_, k_}, values);
  }

  bool read_parameters(const Numbers& scale, const Numbers& zero, const Numbers& shift,
                       const std::vector<double>& column_scale, QuantizedWeights& result) const {
    const std::int64_t groups = ir::group_count(k_, result.group);
    std::vector<double> scales, zeros;
    for (std::int64_t n = 0; n < n_; ++n) {
      for (std::int64_t g = 0; g < groups; ++g) {
        const std::int64_t k = g * result.group;
        const double factor = scale.at(k, n), added = shift.at(k, n);
        if (factor == 0 && added != 0) return false;
        const double column = column_scale.empty() ? 1 : column_scale[static_cast<std::size_t>(n)];
        scales.push_back(factor * column);
        zeros.push_back(zero.at(k, n) - offset_ - (added == 0 ? 0 : added / factor));
      }
    }
    // Scales keep the type that the model gives them, unless something was worked into them.
    DType type = DType::kFloat32;
    if (scale.tensor != nullptr && !scale.is_divisor && column_scale.empty() &&
        is_float(scale.tensor->dtype()) && scale.tensor->dtype() != DType::kFloat64)
      type = scale.tensor->dtype();
    result.scales = Tensor::from_doubles(type, {n_, groups}, scales);
    if (std::ranges::all_of(zeros, [](double z) { return z == 0; })) return true;
    const bool exact = std::ranges::all_of(
        zeros, [](double z) { return z == std::floor(z) && z >= -128 && z <= 127; });
    result.zero_points =
        Tensor::from_doubles(exact ? DType::kInt8 : DType::kFloat32, {n_, groups}, zeros);
    return true;
  }

  const Graph& graph_;
  ConstantValues& values_;
  std::int64_t k_, n_;
  int offset_ = 0;
};

}  // namespace

std::optional<QuantizedWeights> read_weights(const Graph& graph, ConstantValues& values,
                                             const Dequantization& found, std::int64_t k,
                                             std::int64_t n,
                                             const std::vector<double>& column_scale,
                                             std::string& refusal) {
  return Reader(graph, values, k, n).read(found, column_scale, refusal);
}

std::vector<ValueId> add_weights(GraphBuilder& builder, const QuantizedWeights& weights) {
  std::vector<ValueId> result{builder.constant(weights.values), builder.constant(weights.scales)};
  if (weights.zero_points) result.push_back(builder.constant(*weights.zero_points));
  return result;
}

Attrs attributes_of(const QuantizedWeights& weights) {
  return {{"bits", std::int64_t{weights.bits}}, {"group", weights.group}};
}

namespace {

/// Adds the rows that `indices` name of values that are computed row by row.
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
    if (node != nullptr && node->op->kind == OpKind::kPointwise) {
      const std::size_t rank = graph_.type(value).shape.size();
      std::vector<ValueId> inputs;
      // What is the same in all rows broadcasts from behind.
      for (const ValueId input : node->inputs)
        inputs.push_back(has_rows(input, rank) ? gathered(input)
                                               : builder_.constant(values_.tensor(input)));
      return builder_.add(node->op->name, std::move(inputs), node->attrs);
    }
    if (node != nullptr && keeps_rows(*node)) return view(*node);
    return builder_.add("Gather", {builder_.constant(values_.tensor(value)), indices_},
                        {{"axis", std::int64_t{0}}});
  }

  /// True for a view that leaves rows what and where they are.
  bool keeps_rows(const Node& node) const {
    const Shape &from = graph_.type(node.inputs[0]).shape, &to = graph_.type(node.outputs[0]).shape;
    if (from.empty() || to.empty() || from[0] != rows_ || to[0] != rows_) return false;
    if (node.op->name == "Slice")
      return node.attrs.get_dims("starts")[0] == Dim(0) && node.attrs.get_ints("steps")[0] == 1;
    return node.op->name == "Reshape" || (node.op->name == "Expand" && from.size() == to.size());
  }

  ValueId view(const Node& node) {
    const ValueId input = gathered(node.inputs[0]);
    const Shape places = builder_.type(indices_).shape;
    const auto with_places = [&](auto list, auto place) {
      list.erase(list.begin());
      for (std::size_t d = places.size(); d-- > 0;) list.insert(list.begin(), place(d));
      return list;
    };
    Attrs attrs = node.attrs;
    attrs.set("shape",
              with_places(node.attrs.get_dims("shape"), [&](auto d) { return places[d]; }));
    if (node.op->name == "Slice") {
      attrs.set("starts", with_places(node.attrs.get_dims("starts"), [](auto) { return Dim(0); }));
      attrs.set("steps",
                with_places(node.attrs.get_ints("steps"), [](auto) { return std::int64_t{1}; }));
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

}  // namespace sinter::fusion
