// SPDX-License-Identifier: Apache-2.0
// Errors with formatted messages: throw usage_error("input '{}' has rank {}", name, rank). Includes
// fmt/format.h and sinter/error.h.
#pragma once

#include <string>
#include <utility>

#include <fmt/format.h>
#include <sinter/error.h>

namespace sinter {

#define SINTER_ERROR_OF(function, code)                                                         \
  inline Error function(std::string message) {                                                  \
    return Error(ErrorCode::code, std::move(message));                                          \
  }                                                                                             \
  template <typename First, typename... Rest>                                                   \
  Error function(fmt::format_string<First, Rest...> format, First&& first, Rest&&... rest) {    \
    return Error(ErrorCode::code,                                                               \
                 fmt::format(format, std::forward<First>(first), std::forward<Rest>(rest)...)); \
  }
SINTER_ERROR_OF(usage_error, kUsage)
SINTER_ERROR_OF(unsupported_error, kUnsupported)
SINTER_ERROR_OF(invalid_model_error, kInvalidModel)
SINTER_ERROR_OF(invalid_plan_error, kInvalidPlan)
SINTER_ERROR_OF(device_error, kDevice)
SINTER_ERROR_OF(internal_error, kInternal)
#undef SINTER_ERROR_OF

}  // namespace sinter
