// SPDX-License-Identifier: Apache-2.0
// Command-line options over CLI11. Its headers cost about 4 seconds of compile time per file, so
// only options.cpp and cli.cpp include them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tools/cli/help/verb_help.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace sinter::tools {

/// Modifiers of a declared option; each returns the option. Invalid values, and missing or excluded
/// options, are usage errors (exit code 2).
class Option {
 public:
  explicit Option(CLI::Option& option) : option_(option) {}
  Option(const Option&) = delete;
  Option& operator=(const Option&) = delete;

  Option* required();
  /// `--help` shows the variable's current value as the default.
  Option* capture_default_str();
  Option* default_str(const std::string& text);
  /// Replaces the help text of the declaration.
  Option* describe(const std::string& help);
  /// Requires exactly `values` values.
  Option* expected(int values);
  /// Valid only together with `other`.
  Option* needs(Option* other);
  /// Invalid together with `other`, or with the option of this name.
  Option* excludes(Option* other);
  Option* excludes(const std::string& name);
  Option* check_positive();
  Option* check_range(std::int64_t least, std::int64_t most);
  /// Restricts the values; --help and completion list them, and an error suggests the nearest.
  Option* check_one_of(const std::vector<std::string>& values);
  Option* check_existing_folder();

 private:
  friend class Command;
  CLI::Option& option_;
  std::string names_, type_, group_;  // as declared; without names it was declared elsewhere
  std::vector<std::string> values_;
  bool optional_value_ = false;
};

/// The `sinter` command, or one of its verbs. Owns its options and verbs. Variables of options must
/// live until the command line is parsed.
class Command {
 public:
  explicit Command(CLI::App& app);
  ~Command();

  /// Heading in --help for the options declared from here on.
  void group(const std::string& title) { group_ = title; }
  const std::string& group() const { return group_; }
  /// An example at the end of --help. Files must exist in the tests' folder: model.onnx,
  /// model.plan, in.npz, .. (tests/tools/help/help_test.cpp runs the examples).
  void example(const std::string& command, const std::string& comment = "");
  /// A description of all declarations, for --help, `sinter help` and completion.
  VerbHelp describe() const;
  const std::vector<std::unique_ptr<Command>>& commands() const { return commands_; }

  /// `names`: "plan" for a positional argument, else "--name TYPE" or "-n,--name TYPE", where TYPE
  /// is the name of the value in --help: FILE, SHAPES, N. T: std::string, int, std::int64_t,
  /// std::uint64_t, double, std::optional of the last three, or a vector of strings for repeatable
  /// options.
  template <typename T>
  Option* add_option(const std::string& names, T& value, const std::string& help);
  /// An option with two words: `value` becomes true for `on`.
  Option* add_switch(const std::string& names, bool& value, const std::string& on,
                     const std::string& off, const std::string& help);
  /// A repeatable option; calls `take` with each value.
  Option* add_each(const std::string& names, std::function<void(const std::string&)> take,
                   const std::string& help);
  /// --threads: the number of threads in the process's pool for CPU plans.
  Option* add_threads_option();
  /// --no-graph sets the variable to false.
  Option* add_graph_flag(bool& cuda_graphs);
  /// --weight-budget, for runs on a GPU.
  Option* add_weight_budget(std::uint64_t& bytes);
  /// Names that start with '!' set the variable to false.
  Option* add_flag(const std::string& names, bool& value, const std::string& help);
  /// A flag with an optional value after '=' ("--serve TYPE"); without a value, `value` becomes
  /// `plain`.
  Option* add_flag(const std::string& name, std::string& value, const std::string& plain,
                   const std::string& help);
  /// A flag without a variable, for use in other options' conditions.
  Option* add_flag(const std::string& names, const std::string& help);
  /// Sets the help of a flag that CLI11 itself provides.
  void describe_flag(const std::string& names, const std::string& help);
  /// An option declared before; throws for an unknown name.
  Option* get_option(const std::string& name);

  Command* add_subcommand(const std::string& name, const std::string& help);
  /// A group of options; require_option sets how many of them must be given.
  Command* add_option_group(const std::string& name);
  void require_option(int count);
  /// The verb's action, called after parsing.
  void callback(std::function<void()> run);

 private:
  /// `declared`: names and type.
  Option* keep(CLI::Option* option, const std::string& declared = "");
  Command* keep(CLI::App* command);

  CLI::App& app_;
  std::vector<std::unique_ptr<Option>> options_;
  std::vector<std::unique_ptr<Command>> commands_;
  std::string group_ = "Options";
  std::vector<Example> examples_;
  std::vector<OptionHelp> described_;
};

/// Sets the heading of options declared during this object's lifetime.
class OptionsUnder {
 public:
  OptionsUnder(Command& command, const std::string& title)
      : command_(command), before_(command.group()) {
    command.group(title);
  }
  ~OptionsUnder() { command_.group(before_); }
  OptionsUnder(const OptionsUnder&) = delete;
  OptionsUnder& operator=(const OptionsUnder&) = delete;

 private:
  Command& command_;
  std::string before_;
};

}  // namespace sinter::tools
