// SPDX-License-Identifier: Apache-2.0
// The page at /, whose files the build puts into the binary.
#pragma once

#include <string_view>
#include <vector>

#include "tools/serve/http/message.h"

namespace sinter::tools {

struct ServePageFile {
  std::string_view name;
  std::string_view text;
};
/// Of page/: index.html, which is at /, and what is at /page/NAME ("vendor/NAME" of others' files).
const std::vector<ServePageFile>& serve_page_files();

/// The file of that name; 304 for a browser that has it. Throws ApiError (404) if there is none.
http::Response page_response(std::string_view name, const http::Request& request);

}  // namespace sinter::tools
