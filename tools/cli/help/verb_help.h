// SPDX-License-Identifier: Apache-2.0
// A verb's declarations as data, from which --help, `sinter help`, completion and their tests are
// generated.
#pragma once

#include <string>
#include <vector>

namespace sinter::tools {

struct OptionHelp {
  std::string names;  // "-o,--output"; an argument: "plan"
  std::string type;   // type of the value, "FILE"; empty: a flag
  std::string group;  // heading in --help
  std::string help;
  std::string standard;             // default value as text; empty: not shown
  std::vector<std::string> values;  // the only valid values; empty: any
  bool positional = false, required = false, repeated = false;
  bool optional_value = false;  // accepts --serve and --serve=VALUE

  /// The long name: "--output" in "-o,--output".
  std::string name() const { return names.substr(names.rfind(',') + 1); }
};

struct Example {
  std::string command;  // "sinter run model.plan"
  std::string comment;  // may be empty
};

struct VerbHelp {
  std::string name;  // empty for the command itself
  std::string description;
  std::vector<OptionHelp> options;  // includes arguments
  std::vector<Example> examples;
};

}  // namespace sinter::tools
