// SPDX-License-Identifier: Apache-2.0
// What a verb's declarations say, as data: --help, `sinter help`, completion and their tests are
// made from it.
#pragma once

#include <string>
#include <vector>

namespace sinter::tools {

struct OptionHelp {
  std::string names;  // "-o,--output", or "plan" of an argument
  std::string type;   // "FILE"; empty: a flag
  std::string group;  // heading
  std::string help;
  std::string standard;             // the default, as a text; empty: none is said
  std::vector<std::string> values;  // no others are taken; empty: any
  bool positional = false, required = false, repeated = false;
  bool optional_value = false;  // --serve or --serve=VALUE

  /// "--output", of "-o,--output".
  std::string name() const { return names.substr(names.rfind(',') + 1); }
};

struct Example {
  std::string command;  // "sinter run model.plan"
  std::string comment;  // may be empty
};

struct VerbHelp {
  std::string name;  // empty: the command itself
  std::string description;
  std::vector<OptionHelp> options;  // arguments, too
  std::vector<Example> examples;
};

}  // namespace sinter::tools
