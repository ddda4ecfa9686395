// SPDX-License-Identifier: Apache-2.0
// The library's log messages. Without a logger it prints nothing.
#pragma once

#include <functional>
#include <string_view>

#include <sinter/export.h>

namespace sinter {

enum class LogLevel {
  kDebug = 0,    // shapes prepared, memory grown
  kInfo = 1,     // plans loaded, sessions created, libraries found
  kWarning = 2,  // something works, but with degraded speed or precision
  kError = 3,    // work that failed asynchronously: a step of an engine
};

using Logger = std::function<void(LogLevel level, std::string_view message)>;

/// Passes every further message of level `least` or above to `logger`; an empty logger turns
/// messages off. Any thread that uses the library calls it, several at once. It must call neither
/// set_logger nor a session; its exceptions are dropped. The message is one line without a line
/// end, valid during the call. When set_logger returns, no call of the previous logger is running.
SINTER_API void set_logger(Logger logger, LogLevel least = LogLevel::kInfo);

}  // namespace sinter
