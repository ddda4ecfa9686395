// SPDX-License-Identifier: Apache-2.0
// Errors as the server's answers say them.
#pragma once

#include <exception>
#include <nlohmann/json.hpp>
#include <string>

#include <sinter/error.h>
#include <sinter/export.h>

namespace sinter::tools {

/// An answer with an error in it.
class SINTER_API ApiError : public std::exception {
 public:
  /// `status` of HTTP; `parameter`: of the request, that the message is about, or empty.
  ApiError(int status, std::string message, std::string parameter = "");
  /// 400 for Error(kUsage), 429 for QueueFullError, 503 for EngineStoppedError and no memory, else
  /// 500.
  static ApiError of(const Error& error);

  const char* what() const noexcept override { return message_.c_str(); }
  int status() const { return status_; }
  const std::string& parameter() const { return parameter_; }
  /// {"error": {"message", "type", "param", "code"}}, as OpenAI's API has it.
  nlohmann::ordered_json body() const;

 private:
  int status_;
  std::string message_, parameter_;
};

}  // namespace sinter::tools
