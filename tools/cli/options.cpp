// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sinter/compiler.h>
#include <sinter/threads.h>

#include "ir/text/similar.h"

namespace sinter::tools {

Option* Option::required() {
  option_.required();
  return this;
}

Option* Option::capture_default_str() {
  option_.capture_default_str();
  return this;
}

Option* Option::default_str(const std::string& text) {
  option_.default_str(text);
  return this;
}

Option* Option::describe(const std::string& help) {
  option_.description(help);
  return this;
}
Option* Option::expected(int values) {
  option_.expected(values);
  return this;
}

Option* Option::needs(Option* other) {
  option_.needs(&other->option_);
  return this;
}

Option* Option::excludes(Option* other) {
  option_.excludes(&other->option_);
  return this;
}

Option* Option::excludes(const std::string& name) {
  option_.excludes(name);
  return this;
}

Option* Option::check_positive() {
  option_.check(CLI::Validator(CLI::PositiveNumber).description(""));
  return this;
}

Option* Option::check_range(std::int64_t least, std::int64_t most) {
  option_.check(CLI::Range(least, most).description(""));
  return this;
}

Option* Option::check_one_of(const std::vector<std::string>& values) {
  values_ = values;
  const auto check = [values](std::string& text) {
    if (std::ranges::find(values, text) != values.end()) return std::string();
    return fmt::format("'{}' is none of {}{}", text, fmt::join(values, ", "),
                       ir::did_you_mean(text, values));
  };
  option_.check(CLI::Validator(check, ""));
  return this;
}

Option* Option::check_existing_folder() {
  option_.check(CLI::Validator(CLI::ExistingDirectory).description(""));
  return this;
}

namespace {

/// The names: "-o,--output" in "-o,--output FILE".
std::string names_of(const std::string& declared) { return declared.substr(0, declared.find(' ')); }

/// The type: "FILE"; empty if there is none.
std::string type_of(const std::string& declared) {
  const std::size_t space = declared.find(' ');
  return space == std::string::npos ? "" : declared.substr(space + 1);
}

}  // namespace

Command::Command(CLI::App& app) : app_(app) {}
Command::~Command() = default;

Option* Command::keep(CLI::Option* option, const std::string& declared) {
  options_.push_back(std::make_unique<Option>(*option));
  Option& kept = *options_.back();
  if (declared.empty()) return &kept;
  kept.names_ = names_of(declared);
  if (kept.names_.front() == '!') kept.names_.erase(0, 1);
  kept.type_ = type_of(declared);
  kept.group_ = option->get_positional() && !option->nonpositional() ? "Arguments" : group_;
  option->type_name(kept.type_);
  return &kept;
}

Command* Command::keep(CLI::App* command) {
  commands_.push_back(std::make_unique<Command>(*command));
  return commands_.back().get();
}

void Command::example(const std::string& command, const std::string& comment) {
  examples_.push_back({command, comment});
}

void Command::describe_flag(const std::string& names, const std::string& help) {
  described_.push_back({.names = names, .group = group_, .help = help});
}

VerbHelp Command::describe() const {
  VerbHelp verb = {app_.get_name(), app_.get_description(), {}, examples_};
  for (const auto& option : options_) {
    if (option->names_.empty()) continue;
    const CLI::Option& cli = option->option_;
    const bool several = cli.get_items_expected_max() > std::max(1, cli.get_items_expected_min());
    verb.options.push_back({option->names_, option->type_, option->group_, cli.get_description(),
                            cli.get_default_str(), option->values_, option->group_ == "Arguments",
                            cli.get_required(), several && !option->optional_value_,
                            option->optional_value_});
  }
  verb.options.insert(verb.options.end(), described_.begin(), described_.end());
  for (const auto& command : commands_)
    if (command->app_.get_name().empty())  // an option group
      for (OptionHelp& option : command->describe().options)
        verb.options.push_back(std::move(option));
  return verb;
}

template <typename T>
Option* Command::add_option(const std::string& names, T& value, const std::string& help) {
  return keep(app_.add_option(names_of(names), value, help), names);
}
template Option* Command::add_option(const std::string&, std::string&, const std::string&);
template Option* Command::add_option(const std::string&, int&, const std::string&);
template Option* Command::add_option(const std::string&, std::int64_t&, const std::string&);
template Option* Command::add_option(const std::string&, std::uint64_t&, const std::string&);
template Option* Command::add_option(const std::string&, double&, const std::string&);
template Option* Command::add_option(const std::string&, std::optional<double>&,
                                     const std::string&);
template Option* Command::add_option(const std::string&, std::optional<std::int64_t>&,
                                     const std::string&);
template Option* Command::add_option(const std::string&, std::optional<std::uint64_t>&,
                                     const std::string&);
template Option* Command::add_option(const std::string&, std::vector<std::string>&,
                                     const std::string&);

Option* Command::add_switch(const std::string& names, bool& value, const std::string& on,
                            const std::string& off, const std::string& help) {
  const auto set = [&value, on](const std::string& text) { value = text == on; };
  return keep(app_.add_option_function<std::string>(names, set, help), names)
      ->check_one_of({on, off})
      ->default_str(value ? on : off);
}

Option* Command::add_each(const std::string& names, std::function<void(const std::string&)> take,
                          const std::string& help) {
  const auto set = [take = std::move(take)](const std::vector<std::string>& values) {
    for (const std::string& value : values) take(value);
  };
  return keep(app_.add_option_function<std::vector<std::string>>(names_of(names), set, help)
                  ->expected(1)
                  ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll),
              names);
}

Option* Command::add_threads_option() {
  const auto set = [](const int& threads) {
    ThreadPoolOptions pool;
    pool.threads = threads;
    set_thread_pool(pool);
  };
  const OptionsUnder heading(*this, "Session");
  return keep(app_.add_option_function<int>(
                  "--threads", set,
                  "Threads that CPU plans are computed with; 0: SINTER_THREADS, or the processors "
                  "that this process may use"),
              "--threads N");
}

Option* Command::add_graph_flag(bool& cuda_graphs) {
  const OptionsUnder heading(*this, "Session");
  return add_flag("!--no-graph", cuda_graphs, "Launch step by step, without a CUDA graph");
}

Option* Command::add_weight_budget(std::uint64_t& bytes) {
  const OptionsUnder heading(*this, "Session");
  return keep(app_.add_option_function<std::string>(
                  "--weight-budget",
                  [&bytes](const std::string& text) {
                    with_context("--weight-budget", [&] { bytes = parse_bytes(text); });
                  },
                  "Most memory of the GPU for weights (8GB): others stay in pinned host memory and "
                  "are copied ahead of the steps that read them"),
              "--weight-budget BYTES");
}

Option* Command::add_flag(const std::string& names, bool& value, const std::string& help) {
  return keep(app_.add_flag(names, value, help), names);
}

Option* Command::add_flag(const std::string& name, std::string& value, const std::string& plain,
                          const std::string& help) {
  Option* option = keep(app_.add_flag(names_of(name) + "{" + plain + "}", value, help), name);
  option->optional_value_ = !type_of(name).empty();
  return option;
}

Option* Command::add_flag(const std::string& names, const std::string& help) {
  return keep(app_.add_flag(names, help), names);
}

Option* Command::get_option(const std::string& name) { return keep(app_.get_option(name)); }

Command* Command::add_subcommand(const std::string& name, const std::string& help) {
  return keep(app_.add_subcommand(name, help));
}

Command* Command::add_option_group(const std::string& name) {
  Command* made = keep(app_.add_option_group(name));
  made->group(group_);
  return made;
}

void Command::require_option(int count) { app_.require_option(count); }

void Command::callback(std::function<void()> run) { app_.callback(std::move(run)); }

}  // namespace sinter::tools
