// SPDX-License-Identifier: Apache-2.0
// --inputs, --shapes, --input-range and --seed: the inputs of a verb's run.
#pragma once

#include <string>
#include <vector>

#include <sinter/compiler.h>

#include "tools/cli/options.h"

namespace sinter::tools {

/// Inputs as written on the command line.
struct InputTexts {
  RunInputs inputs;                 // options that need no parsing
  std::string shapes;               // shapes of random inputs
  std::vector<std::string> ranges;  // NAME=LOW..HIGH for random inputs
};
void add_input_options(Command& verb, InputTexts& texts);
/// Throws Error(kUsage) quoting invalid text.
RunInputs parse(const InputTexts& texts);

}  // namespace sinter::tools
