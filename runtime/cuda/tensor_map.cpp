// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/tensor_map.h"

#include <array>

#include "runtime/format_error.h"

namespace sinter::runtime {
namespace {

constexpr std::size_t kMostDimensions = 5;

/// The copy engine does not compute, so only the element size matters.
CUtensorMapDataType type_of(std::size_t bytes) {
  switch (bytes) {
    case 1: return CU_TENSOR_MAP_DATA_TYPE_UINT8;
    case 2: return CU_TENSOR_MAP_DATA_TYPE_UINT16;
    case 4: return CU_TENSOR_MAP_DATA_TYPE_UINT32;
    default: return CU_TENSOR_MAP_DATA_TYPE_UINT64;
  }
}

std::uint64_t require(std::int64_t value, std::int64_t least, std::int64_t below,
                      std::int64_t divisor, const char* what) {
  if (value < least || value >= below || value % divisor != 0)
    throw unsupported_error(
        "a tensor map's {} is {}: it must be a multiple of {} from {} to below {}", what, value,
        divisor, least, below);
  return static_cast<std::uint64_t>(value);
}

}  // namespace

CUtensorMap encode_tensor_map(const graphs::Driver& driver, const plan::fb::PlanT& plan,
                              const plan::fb::TensorMapT& map, const BoundShape& shape,
                              CUdeviceptr address) {
  constexpr std::int64_t kMostExtent = std::int64_t{1} << 32, kMostStride = std::int64_t{1} << 40,
                         kAlignment = 16;
  const auto value = [&](std::uint32_t expression) { return shape.expressions[expression]; };
  const std::size_t bytes = size_of(static_cast<DType>(plan.buffers[map.buffer]->dtype));
  const auto element = static_cast<std::int64_t>(bytes);
  std::array<cuuint64_t, kMostDimensions> extents{}, strides{};
  std::array<cuuint32_t, kMostDimensions> box{}, steps{};
  const std::size_t rank = map.extents.size();
  const bool windows = !map.lower.empty();
  for (std::size_t d = 0; d < rank; ++d) {
    extents[d] = require(value(map.extents[d]), 1, kMostExtent, 1, "extent");
    if (!windows) box[d] = map.box[d];
    steps[d] = windows && d > 0 && d + 1 < rank ? map.steps[d - 1] : 1;
    if (d > 0)
      strides[d - 1] = require(value(map.strides[d - 1]) * element, kAlignment, kMostStride,
                               kAlignment, "stride in bytes");
  }
  const auto begin = static_cast<std::int64_t>(address) + value(map.offset) * element;
  require(begin, 0, INT64_MAX, kAlignment, "address");
  CUtensorMap result{};
  if (windows) {
    driver.tensor_map_encode_im2col(
        &result, type_of(bytes), static_cast<cuuint32_t>(rank), reinterpret_cast<void*>(begin),
        extents.data(), strides.data(), map.lower.data(), map.upper.data(), map.box[0], map.box[1],
        steps.data(), CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
        CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    return result;
  }
  driver.tensor_map_encode_tiled(&result, type_of(bytes), static_cast<cuuint32_t>(rank),
                                 reinterpret_cast<void*>(begin), extents.data(), strides.data(),
                                 box.data(), steps.data(), CU_TENSOR_MAP_INTERLEAVE_NONE,
                                 CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                                 CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return result;
}

}  // namespace sinter::runtime
