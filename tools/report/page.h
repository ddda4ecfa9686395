// SPDX-License-Identifier: Apache-2.0
// The files of the page, which the build puts into the binary: see page/.
#pragma once

#include <string_view>
#include <vector>

namespace sinter::tools {

struct PageFile {
  std::string_view name;  // "base.js"
  std::string_view text;
};
const std::vector<PageFile>& page_files();

/// The text of page/NAME; empty if it does not exist.
std::string_view page_file(std::string_view name);

}  // namespace sinter::tools
