// SPDX-License-Identifier: Apache-2.0
// What a server asks of the application, and counts for it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <string_view>

#include "tools/serve/http/message.h"
#include "tools/serve/http/router.h"

namespace sinter::tools::http {

/// Why the server itself refused or closed something.
enum class Refused : std::uint8_t {
  kMalformed,    // no HTTP that all read alike
  kHead,         // head or target beyond the limits
  kBody,         // body beyond the limits
  kBodyMemory,   // the bodies of others fill all_body_bytes
  kTimeout,      // the rest of a request did not come
  kSlowReader,   // an answer was not read
  kConnections,  // descriptors or memory were short for one more
  kMadeRoom,     // an idle one made room
  kBusy,         // too many requests wait for a thread
  kCount,
};
std::string_view to_string(Refused reason);

struct Figures {
  std::int64_t connections = 0;  // that are open
  std::int64_t answering = 0;    // requests
  std::uint64_t accepted = 0, requests = 0;
  std::array<std::uint64_t, static_cast<std::size_t>(Refused::kCount)> refused{};
};

/// What the application says. All are called by any of the server's threads.
struct Hooks {
  /// Before a body is read, on a thread that others wait for. An answer refuses the request;
  /// `route` is null where there is none, or the method is OPTIONS.
  std::function<std::optional<Response>(const Request&, const Route* route)> admit;
  /// An answer that says what the server itself refuses; `request` may be empty.
  std::function<Response(const Request& request, int status, std::string_view message)> refuse;
  /// An answer for what a handler threw.
  std::function<Response(const Request& request, std::exception_ptr error)> error;
  /// Adds headers to an answer.
  std::function<void(const Request& request, Response& response)> finish;
};

}  // namespace sinter::tools::http
