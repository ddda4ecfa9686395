// SPDX-License-Identifier: Apache-2.0
#include "tests/support/paths.h"

namespace sinter {

const std::string& source_dir() {
  static const std::string path = SINTER_SOURCE_DIR;
  return path;
}
const std::string& binary_dir() {
  static const std::string path = SINTER_BINARY_DIR;
  return path;
}

}  // namespace sinter
