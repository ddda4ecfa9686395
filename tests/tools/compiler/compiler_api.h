// SPDX-License-Identifier: Apache-2.0
// What the tests of <sinter/compiler.h> share.
#pragma once

#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include <sinter/compiler.h>

#include "tests/tools/cli_fixture.h"

namespace sinter::tests {

class CompilerApi : public CliTest {
 protected:
  /// For the CPU, without a kernel cache.
  static CompileOptions cpu() {
    CompileOptions options;
    options.target = "cpu";
    options.kernel_cache = "";
    return options;
  }
  /// What `call` throws.
  template <typename Call>
  static CompileError error_of(const Call& call) {
    try {
      call();
    } catch (const CompileError& error) {
      return error;
    }
    throw std::runtime_error("nothing was thrown");
  }
  /// What compiling `model` throws.
  static CompileError refusal(const Model& model, const CompileOptions& options = cpu()) {
    return error_of([&] { (void)compile(model, options); });
  }
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_))
      names.push_back(entry.path().filename().string());
    return names;
  }
};

}  // namespace sinter::tests
