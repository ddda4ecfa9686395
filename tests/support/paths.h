// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace sinter {

/// The folder of the sources, and that of the build.
const std::string& source_dir();
const std::string& binary_dir();

}  // namespace sinter
