// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/options.h"

#include <CLI/CLI.hpp>
#include <utility>

#include <sinter/compiler.h>
#include <sinter/threads.h>

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
Option* Option::type_name(const std::string& text) {
  option_.type_name(text);
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
  option_.check(CLI::PositiveNumber);
  return this;
}

Option* Option::check_range(std::int64_t least, std::int64_t most) {
  option_.check(CLI::Range(least, most));
  return this;
}

Option* Option::check_one_of(const std::vector<std::string>& values) {
  option_.check(CLI::IsMember(values));
  return this;
}

Option* Option::check_existing_folder() {
  option_.check(CLI::ExistingDirectory);
  return this;
}

Command::Command(CLI::App& app) : app_(app) {}
Command::~Command() = default;

Option* Command::keep(CLI::Option* option) {
  options_.push_back(std::make_unique<Option>(*option));
  return options_.back().get();
}

Command* Command::keep(CLI::App* command) {
  commands_.push_back(std::make_unique<Command>(*command));
  return commands_.back().get();
}

template <typename T>
Option* Command::add_option(const std::string& names, T& value, const std::string& help) {
  return keep(app_.add_option(names, value, help));
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
  return keep(app_.add_option_function<std::string>(names, set, help)
                  ->check(CLI::IsMember({on, off}))
                  ->default_str(value ? on : off));
}

Option* Command::add_each(const std::string& names, const std::string& type,
                          std::function<void(const std::string&)> take, const std::string& help) {
  const auto set = [take = std::move(take)](const std::vector<std::string>& values) {
    for (const std::string& value : values) take(value);
  };
  return keep(app_.add_option_function<std::vector<std::string>>(names, set, help)
                  ->type_name(type)
                  ->expected(1)
                  ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll));
}

Option* Command::add_threads_option() {
  const auto set = [](const int& threads) {
    ThreadPoolOptions pool;
    pool.threads = threads;
    set_thread_pool(pool);
  };
  return keep(app_.add_option_function<int>(
      "--threads", set,
      "threads that CPU plans are computed with; 0: SINTER_THREADS, or the processors that this "
      "process may use"));
}

Option* Command::add_graph_flag(bool& cuda_graphs) {
  return add_flag("!--no-graph", cuda_graphs, "Launch step by step, without a CUDA graph");
}

Option* Command::add_weight_budget(std::uint64_t& bytes) {
  return keep(app_.add_option_function<std::string>(
      "--weight-budget",
      [&bytes](const std::string& text) {
        with_context("--weight-budget", [&] { bytes = parse_bytes(text); });
      },
      "Most memory of the GPU for weights (8GB): others stay in pinned host memory and are copied "
      "ahead of the steps that read them"));
}

Option* Command::add_flag(const std::string& names, bool& value, const std::string& help) {
  return keep(app_.add_flag(names, value, help));
}

Option* Command::add_flag(const std::string& name, std::string& value, const std::string& plain,
                          const std::string& help) {
  return keep(app_.add_flag(name + "{" + plain + "}", value, help));
}

Option* Command::add_flag(const std::string& names, const std::string& help) {
  return keep(app_.add_flag(names, help));
}

Option* Command::get_option(const std::string& name) { return keep(app_.get_option(name)); }

Command* Command::add_subcommand(const std::string& name, const std::string& help) {
  return keep(app_.add_subcommand(name, help));
}

Command* Command::add_option_group(const std::string& name) {
  return keep(app_.add_option_group(name));
}

void Command::require_option(int count) { app_.require_option(count); }

void Command::callback(std::function<void()> run) { app_.callback(std::move(run)); }

}  // namespace sinter::tools
