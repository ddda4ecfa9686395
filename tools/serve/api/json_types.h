// SPDX-License-Identifier: Apache-2.0
// Types of tensors whose elements JSON can say.
#pragma once

#include <cstdint>
#include <string>

#include <fmt/format.h>

#include "tools/serve/api/tensor_types.h"

namespace sinter::tools {

/// Calls use(type tag) for the C++ type whose numbers JSON can say. Throws ApiError (400) that
/// names the tensor for others.
template <typename Use>
void with_json_type(DType dtype, const std::string& tensor, const Use& use) {
  switch (dtype) {
    case DType::kInt8: return use(std::int8_t{});
    case DType::kInt16: return use(std::int16_t{});
    case DType::kInt32: return use(std::int32_t{});
    case DType::kInt64: return use(std::int64_t{});
    case DType::kUInt8: return use(std::uint8_t{});
    case DType::kUInt16: return use(std::uint16_t{});
    case DType::kUInt32: return use(std::uint32_t{});
    case DType::kUInt64: return use(std::uint64_t{});
    case DType::kFloat32: return use(float{});
    case DType::kFloat64: return use(double{});
    case DType::kBool: return use(bool{});
    default:
      fail_tensor(tensor, fmt::format("is {}, which JSON cannot say: send and ask for binary data",
                                      protocol_name(dtype)));
  }
}

}  // namespace sinter::tools
