// SPDX-License-Identifier: Apache-2.0
// Forms with files (multipart/form-data, RFC 7578).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sinter::tools {

struct FormPart {
  std::string name, file;  // file: its name; empty for a field
  std::string_view content;
  bool is_file = false;
};

/// Parts of a body, of which they are views. `content_type` is the header of that name. Throws
/// ApiError (400) for what is no such form, and for more than 64 parts or 16 kB of headers of one.
std::vector<FormPart> parse_multipart(std::string_view content_type, std::string_view body);

}  // namespace sinter::tools
