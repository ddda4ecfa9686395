#include "fusion/quantize/read_weights.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "ir/affine.h"

namespace sinter::fusion {
namespace {

using ir::Dim;
using ir::QuantizedWeights;
using ir::Tensor;

/// Groups below it would make scales as large as what they scale.
constexpr std::int64_t kLeastGroup = 8;

/// Where an element of [k, n] lies in the tensor that it is read from, in elements.
class Address {
 public:
  Address(const ir::Graph& graph, const Element& element) {
    const ir::Shape& shape = graph.type(element.value).shape;
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
  std::vector<std::int64_t> strides_;  // offset, along k, along n; empty: it is not linear
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
  Reader(const ir::Graph& graph, ConstantValues& values, std::int64_t k, std::int64_t n)
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
    if (std::all_of(zeros.begin(), zeros.end(), [](double z) { return z == 0; })) return true;
    const bool exact = std::all_of(zeros.begin(), zeros.end(), [](double z) {
      return z == std::floor(z) && z >= -128 && z <= 127;
    });
    result.zero_points =
        Tensor::from_doubles(exact ? DType::kInt8 : DType::kFloat32, {n_, groups}, zeros);
    return true;
  }

  const ir::Graph& graph_;
  ConstantValues& values_;
  std::int64_t k_, n_;
  int offset_ = 0;
};

}  // namespace

std::optional<QuantizedWeights> read_weights(const ir::Graph& graph, ConstantValues& values,
                                             const Dequantization& found, std::int64_t k,
                                             std::int64_t n,
                                             const std::vector<double>& column_scale,
                                             std::string& refusal) {
  return Reader(graph, values, k, n).read(found, column_scale, refusal);
}

std::vector<ir::ValueId> add_weights(ir::GraphBuilder& builder, const QuantizedWeights& weights) {
  std::vector<ir::ValueId> result{builder.constant(weights.values),
                                  builder.constant(weights.scales)};
  if (weights.zero_points) result.push_back(builder.constant(*weights.zero_points));
  return result;
}

ir::Attrs attributes_of(const QuantizedWeights& weights) {
  return {{"bits", std::int64_t{weights.bits}}, {"group", weights.group}};
}

}  // namespace sinter::fusion
