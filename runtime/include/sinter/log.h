// SPDX-License-Identifier: Apache-2.0
// What the library has to say. It prints nothing by itself.
#pragma once

#include <functional>
#include <string_view>

#include <sinter/export.h>

namespace sinter {

enum class LogLevel {
  kDebug = 0,    // shapes that are prepared, memory that grows
  kInfo = 1,     // plans loaded, sessions made, libraries found
  kWarning = 2,  // something that works, but not as well as it could
  kError = 3,    // work that has failed behind a call: a step of an engine
};

using Logger = std::function<void(LogLevel level, std::string_view message)>;

/// `logger` is given every message of `least` or above from now on; an empty one: none is made. It
/// is called by whatever thread uses the library, by several at once, and must call neither
/// set_logger nor a session. What it throws is dropped. The message is one line without its end,
/// valid during the call. When set_logger returns, no call of the logger before it is under way.
SINTER_API void set_logger(Logger logger, LogLevel least = LogLevel::kInfo);

}  // namespace sinter
