// SPDX-License-Identifier: Apache-2.0
// Options of the command line. Behind them is CLI11, whose headers cost a file some four seconds of
// compile time: options.cpp and cli.cpp alone include them.
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

/// What may be said of an option behind its declaration; each returns the option. A value that an
/// option refuses, and a missing or excluded option, are usage errors (exit code 2).
class Option {
 public:
  explicit Option(CLI::Option& option) : option_(option) {}
  Option(const Option&) = delete;
  Option& operator=(const Option&) = delete;

  Option* required();
  /// `--help` shows the value that the variable has now.
  Option* capture_default_str();
  Option* default_str(const std::string& text);
  /// Says something else in --help than what it was declared with.
  Option* describe(const std::string& help);
  /// Takes exactly `values` values.
  Option* expected(int values);
  /// Given only together with `other`.
  Option* needs(Option* other);
  /// Never given together with `other`, or with the option of this name.
  Option* excludes(Option* other);
  Option* excludes(const std::string& name);
  Option* check_positive();
  Option* check_range(std::int64_t least, std::int64_t most);
  /// No others; --help and completion list them, and an error names the nearest.
  Option* check_one_of(const std::vector<std::string>& values);
  Option* check_existing_folder();

 private:
  friend class Command;
  CLI::Option& option_;
  std::string names_, type_, group_;  // as declared; without names it was declared elsewhere
  std::vector<std::string> values_;
  bool optional_value_ = false;
};

/// The `sinter` command, or one of its verbs. Owns its options and verbs; variables that options
/// write must live until the command line is parsed.
class Command {
 public:
  explicit Command(CLI::App& app);
  ~Command();

  /// The heading of --help under which options stand that are declared from here on.
  void group(const std::string& title) { group_ = title; }
  const std::string& group() const { return group_; }
  /// A command line that --help ends with. Files have the names of the tests' folder: model.onnx,
  /// model.plan, in.npz, .. (tests/tools/help/help_test.cpp runs them).
  void example(const std::string& command, const std::string& comment = "");
  /// All that was declared, for --help, `sinter help` and completion.
  VerbHelp describe() const;
  const std::vector<std::unique_ptr<Command>>& commands() const { return commands_; }

  /// `names`: "plan" for a positional argument, else "--name TYPE" or "-n,--name TYPE", where TYPE
  /// is what --help calls the value: FILE, SHAPES, N. T: std::string, int,
  /// std::int64_t, std::uint64_t, double, an std::optional of the last three, or std::vector of
  /// strings for what may be given several times.
  template <typename T>
  Option* add_option(const std::string& names, T& value, const std::string& help);
  /// One of two words: `value` becomes whether it is `on`.
  Option* add_switch(const std::string& names, bool& value, const std::string& on,
                     const std::string& off, const std::string& help);
  /// An option that may be given several times; `take` is called with each value.
  Option* add_each(const std::string& names, std::function<void(const std::string&)> take,
                   const std::string& help);
  /// --threads: the size of the process's pool of threads for CPU plans.
  Option* add_threads_option();
  /// --no-graph makes the variable false.
  Option* add_graph_flag(bool& cuda_graphs);
  /// --weight-budget, for runs on a GPU.
  Option* add_weight_budget(std::uint64_t& bytes);
  /// `names` that begin with '!' make the variable false.
  Option* add_flag(const std::string& names, bool& value, const std::string& help);
  /// A flag that may have a value behind '=' ("--serve TYPE"); without one `value` becomes `plain`.
  Option* add_flag(const std::string& name, std::string& value, const std::string& plain,
                   const std::string& help);
  /// A flag that only other options speak of.
  Option* add_flag(const std::string& names, const std::string& help);
  /// Says of a flag that CLI11 has by itself what --help shows.
  void describe_flag(const std::string& names, const std::string& help);
  /// An option declared before; throws if there is none of this name.
  Option* get_option(const std::string& name);

  Command* add_subcommand(const std::string& name, const std::string& help);
  /// Options of which `require_option` says how many must be given.
  Command* add_option_group(const std::string& name);
  void require_option(int count);
  /// What the verb does, called once everything is parsed.
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

/// A heading for the options that are declared while this is there.
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
