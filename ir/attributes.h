// SPDX-License-Identifier: Apache-2.0
// Attributes of nodes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ir/dim/dim.h"
#include "ir/tensor.h"

namespace sinter::ir {

/// In the order of Attr's alternatives.
enum class AttrKind { kInt, kFloat, kString, kInts, kDims, kDType };
std::string_view to_string(AttrKind kind);

using Attr = std::variant<std::int64_t, double, std::string, Ints, std::vector<Dim>, DType>;

/// Named attributes in name order. Getters throw Error(kInternal) for an absent name or a wrong
/// kind: the operator's schema was checked when the node was built.
class Attrs {
 public:
  Attrs() = default;
  Attrs(std::initializer_list<std::pair<const std::string, Attr>> values) : values_(values) {}

  bool has(std::string_view name) const { return values_.find(name) != values_.end(); }
  const Attr& get(std::string_view name) const;
  std::int64_t get_int(std::string_view name) const;
  double get_float(std::string_view name) const;
  const std::string& get_string(std::string_view name) const;
  const Ints& get_ints(std::string_view name) const;
  const std::vector<Dim>& get_dims(std::string_view name) const;
  DType get_dtype(std::string_view name) const;
  void set(std::string name, Attr value) {
    values_.insert_or_assign(std::move(name), std::move(value));
  }

  const std::map<std::string, Attr, std::less<>>& values() const { return values_; }
  /// Floats are compared bitwise: -0.0 differs from 0.0, and NaN equals itself.
  friend bool operator==(const Attrs& a, const Attrs& b);
  /// Consistent with ==, within one process.
  friend std::size_t hash_of(const Attrs& attrs);

 private:
  std::map<std::string, Attr, std::less<>> values_;
};

}  // namespace sinter::ir
