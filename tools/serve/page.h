// SPDX-License-Identifier: Apache-2.0
// The page at /, which the build puts into the binary.
#pragma once

#include <string_view>
#include <vector>

namespace sinter::tools {

struct ServePageFile {
  std::string_view name;
  std::string_view text;
};
/// page/index.html.
const std::vector<ServePageFile>& serve_page_files();

}  // namespace sinter::tools
