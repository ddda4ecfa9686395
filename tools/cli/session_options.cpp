// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/session_options.h"

namespace sinter::tools {

void add_session_options(Command& verb, SessionOptions& options) {
  const OptionsUnder heading(verb, "Session");
  verb.add_option("--device N", options.device, "CUDA device")->capture_default_str();
  verb.add_each(
      "--op-library FILE",
      [&options](const std::string& path) {
        options.operator_libraries.push_back(OperatorLibrary::open(path));
      },
      "Shared library that computes operators of the plan's ([operator.host] in the file of "
      "--op); may be repeated");
}

}  // namespace sinter::tools
