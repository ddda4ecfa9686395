// SPDX-License-Identifier: Apache-2.0
// Types and sizes of tensors as the Open Inference Protocol (KServe v2) names them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sinter/export.h>

#include "tools/serve/models/tensor_model.h"

namespace sinter::tools {

inline constexpr std::size_t kMostTensorRank = 16;
/// The one version that models have, and what they are.
inline constexpr char kModelVersion[] = "1", kModelPlatform[] = "sinter_plan";

/// "FP32" of kFloat32; of a type that the protocol has not, Sinter's own name.
SINTER_API std::string protocol_name(DType dtype);
/// Nothing for what is not supported ("BYTES").
SINTER_API std::optional<DType> type_of_protocol(std::string_view name);

/// Of an input or output; -1: any size.
SINTER_API std::vector<std::int64_t> protocol_shape(const BindingInfo& binding);

/// Throws ApiError (400) that names the tensor.
[[noreturn]] SINTER_API void fail_tensor(const std::string& tensor, std::string_view what);
/// Elements of a shape. Throws ApiError (400) if a dimension is negative or beyond 31 bits, or
/// there are too many.
SINTER_API std::size_t checked_count(const std::string& tensor,
                                     const std::vector<std::int64_t>& shape);
/// Throws ApiError (400) if the tensor has not the bytes of `count` elements.
SINTER_API void check_bytes(const std::string& name, const OwnedTensor& tensor, std::size_t count);

}  // namespace sinter::tools
