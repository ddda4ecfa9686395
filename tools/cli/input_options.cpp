// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/input_options.h"

#include <stdexcept>

#include "runtime/format_error.h"

namespace sinter::tools {

void add_input_options(Command& verb, InputTexts& texts) {
  const OptionsUnder heading(verb, "Inputs");
  verb.add_option(
      "--inputs FILE", texts.inputs.files,
      "FILE.npz, NAME=FILE.npy or NAME=FILE.pb; rows of Parquet: the Python package's command");
  verb.add_option("--shapes SHAPES", texts.shapes,
                  "Shapes of random inputs: NAME:1x64,NAME:1x64 (else the least; to verify, the "
                  "greatest that takes seconds)");
  verb.add_option("--input-range NAME=LOW..HIGH", texts.ranges,
                  "Random inputs uniform in a range (else floats normal, integers 0 or 1, a "
                  "mask of a plan compiled with --packed full)");
  verb.add_option("--seed N", texts.inputs.seed, "Seed of random inputs")->capture_default_str();
}

RunInputs parse(const InputTexts& texts) {
  RunInputs inputs = texts.inputs;
  inputs.shapes = parse_shapes(texts.shapes);
  for (const auto& text : texts.ranges) {
    const auto equals = text.rfind('=');
    const auto dots = equals == std::string::npos ? equals : text.find("..", equals);
    try {
      if (dots == std::string::npos) throw std::invalid_argument(text);
      inputs.ranges[text.substr(0, equals)] = {
          std::stod(text.substr(equals + 1, dots - equals - 1)), std::stod(text.substr(dots + 2))};
    } catch (const std::logic_error&) {
      throw usage_error("'{}' is no range: write NAME=LOW..HIGH", text);
    }
  }
  return inputs;
}

}  // namespace sinter::tools
