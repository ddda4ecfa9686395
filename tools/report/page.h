// The files of the page, which the build puts into the binary: see page/.
#pragma once

#include <string_view>

namespace sinter::tools {

/// The text of page/NAME; empty if there is no such file.
std::string_view page_file(std::string_view name);

}  // namespace sinter::tools
