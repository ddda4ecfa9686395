// SPDX-License-Identifier: Apache-2.0
#include "ir/attributes.h"

#include <bit>

#include <fmt/format.h>
#include <sinter/error.h>

namespace sinter::ir {
namespace {

template <typename T>
const T& get_as(const Attrs& attrs, std::string_view name, AttrKind kind) {
  const Attr& attr = attrs.get(name);
  if (const T* value = std::get_if<T>(&attr)) return *value;
  throw Error(ErrorCode::kInternal,
              fmt::format("attribute '{}' is of kind {}, not {}", name,
                          to_string(static_cast<AttrKind>(attr.index())), to_string(kind)));
}

}  // namespace

std::string_view to_string(AttrKind kind) {
  switch (kind) {
    case AttrKind::kInt: return "int";
    case AttrKind::kFloat: return "float";
    case AttrKind::kString: return "string";
    case AttrKind::kInts: return "ints";
    case AttrKind::kDims: return "dims";
    case AttrKind::kDType: return "dtype";
  }
  return "?";
}

const Attr& Attrs::get(std::string_view name) const {
  const auto found = values_.find(name);
  if (found == values_.end())
    throw Error(ErrorCode::kInternal, fmt::format("there is no attribute '{}'", name));
  return found->second;
}

std::int64_t Attrs::get_int(std::string_view name) const {
  return get_as<std::int64_t>(*this, name, AttrKind::kInt);
}

double Attrs::get_float(std::string_view name) const {
  return get_as<double>(*this, name, AttrKind::kFloat);
}

const std::string& Attrs::get_string(std::string_view name) const {
  return get_as<std::string>(*this, name, AttrKind::kString);
}

const Ints& Attrs::get_ints(std::string_view name) const {
  return get_as<Ints>(*this, name, AttrKind::kInts);
}

const std::vector<Dim>& Attrs::get_dims(std::string_view name) const {
  return get_as<std::vector<Dim>>(*this, name, AttrKind::kDims);
}

DType Attrs::get_dtype(std::string_view name) const {
  return get_as<DType>(*this, name, AttrKind::kDType);
}

bool operator==(const Attrs& a, const Attrs& b) {
  if (a.values_.size() != b.values_.size()) return false;
  for (auto x = a.values_.begin(), y = b.values_.begin(); x != a.values_.end(); ++x, ++y) {
    if (x->first != y->first || x->second.index() != y->second.index()) return false;
    if (const double* left = std::get_if<double>(&x->second)) {
      if (std::bit_cast<std::uint64_t>(*left) !=
          std::bit_cast<std::uint64_t>(std::get<double>(y->second)))
        return false;
    } else if (!(x->second == y->second)) {
      return false;
    }
  }
  return true;
}

std::size_t hash_of(const Attrs& attrs) {
  std::size_t hash = attrs.values_.size();
  const auto mix = [&](std::size_t value) {
    hash ^= value + 0x9e3779b97f4a7c15ull + (hash << 6) + (hash >> 2);
  };
  for (const auto& [name, attr] : attrs.values_) {
    mix(attr.index());
    if (const auto* number = std::get_if<std::int64_t>(&attr))
      mix(static_cast<std::size_t>(*number));
    else if (const auto* real = std::get_if<double>(&attr))
      mix(std::bit_cast<std::uint64_t>(*real));
    else if (const auto* text = std::get_if<std::string>(&attr))
      mix(std::hash<std::string>()(*text));
    else if (const auto* dtype = std::get_if<DType>(&attr))
      mix(static_cast<std::size_t>(*dtype));
    else if (const auto* ints = std::get_if<Ints>(&attr))
      for (const std::int64_t each : *ints) mix(static_cast<std::size_t>(each));
    else
      for (const Dim& dim : std::get<std::vector<Dim>>(attr)) mix(hash_of(dim));
  }
  return hash;
}

}  // namespace sinter::ir
