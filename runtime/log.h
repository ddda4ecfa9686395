// SPDX-License-Identifier: Apache-2.0
// Messages for the program's logger.
#pragma once

#include <concepts>
#include <string_view>

#include <sinter/log.h>

namespace sinter::runtime {

bool is_logged(LogLevel level);
void put_log(LogLevel level, std::string_view message);

/// Calls `message` only if a logger accepts this level.
template <std::invocable Message>
void log(LogLevel level, const Message& message) {
  if (is_logged(level)) put_log(level, message());
}

}  // namespace sinter::runtime
