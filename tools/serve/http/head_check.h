// SPDX-License-Identifier: Apache-2.0
// Whether the head of a request is one that all readers understand alike: what is not, is refused
// before it is parsed, so that no proxy in front of the server sees other requests than it does.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "tools/serve/http/limits.h"

namespace sinter::tools::http {

struct Refusal {
  int status = 400;
  std::string message;
};

/// Finds the end of a head that comes bit by bit; each byte is looked at once.
class HeadScanner {
 public:
  /// Of all bytes so far, from the request's first. The head's size with its empty line, 0 if it is
  /// not whole yet. `refusal` is given why it never will be.
  std::size_t scan(std::string_view text, const Limits& limits, std::optional<Refusal>& refusal);

 private:
  std::size_t scanned_ = 0, line_ = 0;  // line_: where the present line begins
};

/// Checks a whole head: request line, header fields (RFC 9112, sections 3 and 5, without what is
/// obsolete), one Host, and a body's length that is said in one way (section 6).
std::optional<Refusal> check_head(std::string_view head, const Limits& limits);

}  // namespace sinter::tools::http
