// SPDX-License-Identifier: Apache-2.0
#include "tools/serve/api/api_error.h"

#include <utility>

#include <sinter/engine.h>

namespace sinter::tools {

ApiError::ApiError(int status, std::string message, std::string parameter)
    : status_(status), message_(std::move(message)), parameter_(std::move(parameter)) {}

ApiError ApiError::of(const Error& error) {
  if (dynamic_cast<const QueueFullError*>(&error) != nullptr) return {429, error.what()};
  if (dynamic_cast<const EngineStoppedError*>(&error) != nullptr) return {503, error.what()};
  switch (error.code()) {
    case ErrorCode::kUsage: return {400, error.what()};
    case ErrorCode::kOutOfMemory: return {503, error.what()};
    default: return {500, error.what()};
  }
}

nlohmann::ordered_json ApiError::body() const {
  const auto type = status_ == 401   ? "authentication_error"
                    : status_ == 404 ? "not_found_error"
                    : status_ == 429 ? "rate_limit_error"
                    : status_ < 500  ? "invalid_request_error"
                                     : "server_error";
  nlohmann::ordered_json error = {{"message", message_}, {"type", type}};
  error["param"] =
      parameter_.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(parameter_);
  error["code"] = nullptr;
  return {{"error", std::move(error)}};
}

}  // namespace sinter::tools
