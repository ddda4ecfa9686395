// SPDX-License-Identifier: Apache-2.0
// Calls of tools that a text has.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace sinter::tools {

struct ToolCall {
  std::string name, arguments;  // arguments: JSON of an object
};

/// What stands behind the beginning of a block of calls.
struct ToolBlock {
  enum class State : std::uint8_t {
    kOpen,  // more may make it calls
    kNone,  // it is text
    kCalls
  };
  State state = State::kNone;
  std::size_t length = 0;  // bytes that are decided
  std::vector<ToolCall> calls;
};

}  // namespace sinter::tools
