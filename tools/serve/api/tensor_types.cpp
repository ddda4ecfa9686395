// SPDX-License-Identifier: Apache-2.0
#include "tools/serve/api/tensor_types.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tools/serve/api/api_error.h"

namespace sinter::tools {
namespace {

struct TypeName {
  DType dtype;
  std::string_view name;
};
constexpr std::array kTypes = {
    TypeName{DType::kBool, "BOOL"},     TypeName{DType::kUInt8, "UINT8"},
    TypeName{DType::kUInt16, "UINT16"}, TypeName{DType::kUInt32, "UINT32"},
    TypeName{DType::kUInt64, "UINT64"}, TypeName{DType::kInt8, "INT8"},
    TypeName{DType::kInt16, "INT16"},   TypeName{DType::kInt32, "INT32"},
    TypeName{DType::kInt64, "INT64"},   TypeName{DType::kFloat16, "FP16"},
    TypeName{DType::kBFloat16, "BF16"}, TypeName{DType::kFloat32, "FP32"},
    TypeName{DType::kFloat64, "FP64"}};

}  // namespace

std::string protocol_name(DType dtype) {
  const auto found = std::ranges::find(kTypes, dtype, &TypeName::dtype);
  return found == kTypes.end() ? std::string(to_string(dtype)) : std::string(found->name);
}

std::optional<DType> type_of_protocol(std::string_view name) {
  const auto found = std::ranges::find(kTypes, name, &TypeName::name);
  if (found == kTypes.end()) return std::nullopt;
  return found->dtype;
}

std::vector<std::int64_t> protocol_shape(const BindingInfo& binding) {
  std::vector<std::int64_t> shape;
  for (const DimInfo& dim : binding.shape) shape.push_back(dim.min == dim.max ? dim.min : -1);
  return shape;
}

void fail_tensor(const std::string& tensor, std::string_view what) {
  throw ApiError(400, fmt::format("tensor '{}' {}", tensor, what), tensor);
}

std::size_t checked_count(const std::string& tensor, const std::vector<std::int64_t>& shape) {
  std::size_t count = 1;
  const auto is_wrong = [&](std::int64_t dim) {
    return dim < 0 || dim > INT32_MAX ||
           __builtin_mul_overflow(count, static_cast<std::size_t>(dim), &count);
  };
  if (shape.size() > kMostTensorRank || std::ranges::any_of(shape, is_wrong))
    fail_tensor(tensor, fmt::format("has the shape [{}]", fmt::join(shape, ",")));
  return count;
}

void check_bytes(const std::string& name, const OwnedTensor& tensor, std::size_t count) {
  const std::size_t size = size_of(tensor.dtype);
  if (tensor.data.size() / size != count || tensor.data.size() % size != 0)
    fail_tensor(name, fmt::format("has {} bytes: its shape has {} elements of {}",
                                  tensor.data.size(), count, protocol_name(tensor.dtype)));
}

}  // namespace sinter::tools
