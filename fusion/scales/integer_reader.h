// SPDX-License-Identifier: Apache-2.0
// Reads a model's own integers with scales and zero points from any layout.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <optional>
#include <vector>

#include "fusion/scales/rounding/float4.h"
#include "fusion/transforms.h"
#include "ir/scale_format.h"

namespace sinter::fusion {

/// A linear layout: positions of elements along k (or groups) and n.
struct IntegerLine {
  std::int64_t offset = 0, along_k = 0, along_n = 0;
  std::int64_t at(std::int64_t k, std::int64_t n) const {
    return offset + k * along_k + n * along_n;
  }
};

/// A number for each group and row.
template <class Address>
struct IntegerNumbers {
  const ir::Tensor* tensor = nullptr;  // null: `number` for all
  Address address = {};
  double number = 0;
  bool is_divisor = false;

  double at(std::int64_t g, std::int64_t n) const {
    const double found = tensor != nullptr ? tensor->at(address.at(g, n)) : number;
    return is_divisor ? 1 / found : found;
  }
};

/// Integers [k, n] with their scales and shifts.
template <class Address, class GroupAddress>
struct IntegerSource {
  std::int64_t k, n, group;
  const ir::Tensor* values;
  Address address;
  IntegerNumbers<GroupAddress> scale, zero, shift;
  const ir::Tensor* columns = nullptr;  // factors of columns: one, or n
};

template <class Address, class GroupAddress>
class IntegerReader {
 public:
  explicit IntegerReader(const IntegerSource<Address, GroupAddress>& source) : s_(source) {}

  /// Nothing if a scale is zero and there is a shift.
  std::optional<ir::ScaledTensor> read() {
    Tensor values = read_values();
    auto parameters = read_parameters();
    if (!parameters) return std::nullopt;
    if (is_float8(s_.values->dtype()))
      return ir::scaled_rows_of(ir::float4_codes(), s_.group, s_.k, std::move(values),
                                std::move(parameters->first), std::move(parameters->second));
    return ir::scaled_rows_of(bits_, s_.group, s_.k, std::move(values),
                              std::move(parameters->first), std::move(parameters->second));
  }

 private:
  /// Reads the numbers; `offset_` is subtracted from the model's own.
  Tensor read_values() {
    const ir::Tensor& tensor = *s_.values;
    const Address& address = s_.address;
    const bool is_signed = tensor.dtype() == DType::kInt8;
    const ir::HeldBytes held = tensor.hold();
    const auto* from = reinterpret_cast<const std::uint8_t*>(held.bytes.data());
    const std::vector<int> float4 =
        is_float8(tensor.dtype()) ? float4_codes_of(tensor.dtype()) : std::vector<int>();
    const auto value = [&](std::int64_t at) {
      if (!float4.empty()) return float4[from[at]];
      return is_signed ? static_cast<int>(static_cast<std::int8_t>(from[at])) : int{from[at]};
    };
    int low = 255, high = -128;
    for (std::int64_t i = 0; i < tensor.element_count(); ++i) {
      low = std::min(low, value(i));
      high = std::max(high, value(i));
    }
    const bool narrow = is_signed ? low >= -8 && high <= 7 : high <= 15;
    bits_ = narrow ? 4 : 8;
    offset_ = is_signed ? 0 : narrow ? 8 : 128;
    if (!float4.empty()) bits_ = 4, offset_ = 0;
    const bool in_place = is_signed && !narrow && tensor.element_count() == s_.k * s_.n &&
                          address.at(0, 0) == 0 && (s_.k == 1 || address.at(1, 0) == 1) &&
                          (s_.n == 1 || address.at(0, 1) == s_.k) &&
                          address.at(s_.k - 1, s_.n - 1) == s_.k * s_.n - 1;
    if (in_place) return tensor.reshaped({s_.n, s_.k});
    std::vector<std::int8_t> values(static_cast<std::size_t>(s_.k * s_.n));
    // In strips of columns, as weights are often transposed.
    constexpr std::int64_t kStrip = 64;
    for (std::int64_t first = 0; first < s_.n; first += kStrip)
      for (std::int64_t k = 0; k < s_.k; ++k)
        for (std::int64_t n = first; n < std::min(s_.n, first + kStrip); ++n)
          values[static_cast<std::size_t>(n * s_.k + k)] =
              static_cast<std::int8_t>(value(address.at(k, n)) - (float4.empty() ? offset_ : 8));
    return narrow ? ir::pack_four_bits(values, s_.n, s_.k)
                  : ir::Tensor::of(DType::kInt8, {s_.n, s_.k}, values);
  }

  /// Scales, and zero points that are not all zero.
  std::optional<std::pair<Tensor, std::optional<Tensor>>> read_parameters() const {
    const std::int64_t groups = ir::group_count(s_.k, s_.group);
    std::vector<double> columns, scales, zeros;
    if (s_.columns != nullptr) columns = s_.columns->to_doubles();
    for (std::int64_t n = 0; n < s_.n; ++n) {
      for (std::int64_t g = 0; g < groups; ++g) {
        const double factor = s_.scale.at(g, n), added = s_.shift.at(g, n);
        if (factor == 0 && added != 0) return std::nullopt;
        const double column =
            columns.empty() ? 1 : columns[columns.size() == 1 ? 0 : static_cast<std::size_t>(n)];
        scales.push_back(factor * column);
        zeros.push_back(s_.zero.at(g, n) - offset_ - (added == 0 ? 0 : added / factor));
      }
    }
    // Scales keep the model's type, unless other factors were merged into them.
    DType type = DType::kFloat32;
    const ir::Tensor* own = s_.scale.tensor;
    if (own != nullptr && !s_.scale.is_divisor && columns.empty() && is_float(own->dtype()) &&
        own->dtype() != DType::kFloat64)
      type = own->dtype();
    Tensor made = ir::Tensor::from_doubles(type, {s_.n, groups}, scales);
    if (std::ranges::all_of(zeros, [](double z) { return z == 0; }))
      return std::pair(std::move(made), std::optional<Tensor>());
    const bool exact = std::ranges::all_of(
        zeros, [](double z) { return z == std::floor(z) && z >= -128 && z <= 127; });
    return std::pair(std::move(made),
                     std::optional(Tensor::from_doubles(exact ? DType::kInt8 : DType::kFloat32,
                                                        {s_.n, groups}, zeros)));
  }

  const IntegerSource<Address, GroupAddress>& s_;
  int offset_ = 0, bits_ = 8;
};

/// kReadIntegers: inputs are the integers, then those of these parts that are tensors, then column
/// factors if attribute "columns" is 1. Attributes "values", "scale", "zero" and "shift" are lines
/// (offset, along k or groups, along n); "scale_number" .. replace parts without tensor. "divides"
/// is 1 for divisors; "k", "n" and "group" (ScaleFormat::depth) are those of the weights.
inline constexpr std::array<const char*, 3> kIntegerParts = {"scale", "zero", "shift"};

}  // namespace sinter::fusion
