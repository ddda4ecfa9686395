// SPDX-License-Identifier: Apache-2.0
// --inputs, --shapes, --input-range and --seed: what a verb runs something on.
#pragma once

#include <string>
#include <vector>

#include <sinter/compiler.h>

#include "tools/cli/options.h"

namespace sinter::tools {

/// As the command line has them.
struct InputTexts {
  RunInputs inputs;                 // what needs no reading
  std::string shapes;               // for random inputs
  std::vector<std::string> ranges;  // NAME=LOW..HIGH for random inputs
};
void add_input_options(Command& verb, InputTexts& texts);
/// Throws Error(kUsage) quoting what it does not know.
RunInputs parse(const InputTexts& texts);

}  // namespace sinter::tools
