// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/build_options.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <set>

#include "fusion/pipeline.h"
#include "ir/text/shown.h"
#include "ir/text/similar.h"
#include "ir/text/text.h"
#include "runtime/files/output_file.h"
#include "runtime/format_error.h"
#include "tools/compiler/each_entry.h"
#include "tools/compiler/options/option_values.h"
#include "tools/compiler/run/inputs.h"

namespace sinter::tools {
namespace {

/// Splits "model|fp16" into words.
std::vector<std::string> words_of(std::string_view values) {
  std::vector<std::string> words;
  for (std::size_t start = 0; start <= values.size();) {
    const std::size_t bar = std::min(values.find('|', start), values.size());
    words.emplace_back(values.substr(start, bar - start));
    start = bar + 1;
  }
  return words;
}

void add_row(Command& verb, BuildTexts& texts, const OptionRow& row) {
  const std::string flag(row.name()), help(row.help);
  std::string names(row.flag);
  if (!row.type.empty()) names += fmt::format(" {}", row.type.substr(row.type.starts_with('=')));
  Option* option = nullptr;
  if (row.repeated)
    option = verb.add_option(names, texts.lists[flag], help);
  else if (row.is_flag())
    option = verb.add_flag(names, texts.texts[flag],
                           row.values.empty() ? "on" : words_of(row.values).front(), help);
  else
    option = verb.add_option(names, texts.texts[flag], help);
  if (!row.values.empty()) option->check_one_of(words_of(row.values));
  if (!row.standard.empty()) option->default_str(std::string(row.standard));
}

/// Parses "before:X,after:Y" into a set of points; "all" is every pass's result.
std::set<std::string> parse_dump(const std::string& text) {
  std::set<std::string> points;
  for (std::size_t start = 0; start < text.size();) {
    const auto end = std::min(text.find(',', start), text.size());
    const std::string point = text.substr(start, end - start);
    start = end + 1;
    if (point.empty()) continue;
    const auto colon = point.find(':');
    const auto when = point.substr(0, colon);
    if (point != "all" && (colon == std::string::npos || (when != "before" && when != "after")))
      throw usage_error("--dump-ir: '{}' is not before:PASS, after:PASS or all", point);
    if (point != "all") {
      const auto pass = point.substr(colon + 1);
      std::vector<std::string> known = {"import"};
      for (const auto& entry : fusion::pipeline()) known.emplace_back(entry.name);
      if (std::ranges::find(known, pass) == known.end())
        throw usage_error("--dump-ir: there is no pass '{}'{}", pass,
                          ir::did_you_mean(pass, known));
    }
    points.insert(point);
  }
  return points;
}

/// Prints graphs, or writes them to numbered files.
class Dumper {
 public:
  explicit Dumper(const BuildTexts& texts)
      : points_(parse_dump(std::string(texts.text("--dump-ir")))), dir_(texts.text("--dump-dir")) {}

  bool is_idle() const { return points_.empty(); }

  void operator()(std::string_view pass, bool after, const ir::Graph& graph,
                  const std::string& entry) {
    const auto point = fmt::format("{}:{}", after ? "after" : "before", pass);
    if (!points_.contains(point) && !(after && points_.contains("all"))) return;
    if (dir_.empty()) {
      fmt::print(stderr, "# {}{}\n{}\n", entry.empty() ? "" : ir::shown(entry) + " ", point,
                 ir::shown_lines(ir::print(graph)));
      return;
    }
    std::filesystem::create_directories(dir_);
    const auto path =
        fmt::format("{}/{:02}_{}{}_{}.txt", dir_, count_++, entry.empty() ? "" : entry + "_",
                    after ? "after" : "before", pass);
    files::write_file(path, ir::print(graph) + '\n', {.what = "the graph", .is_durable = false});
  }

 private:
  std::set<std::string> points_;
  std::string dir_;
  int count_ = 0;
};

}  // namespace

std::string_view BuildTexts::text(std::string_view flag) const {
  const auto found = texts.find(flag);
  if (found != texts.end() && !found->second.empty()) return found->second;
  const OptionRow* row = find_option(flag);
  return row == nullptr ? std::string_view() : row->standard;
}

const std::vector<std::string>& BuildTexts::list(std::string_view flag) const {
  static const std::vector<std::string> none;
  const auto found = lists.find(flag);
  return found == lists.end() ? none : found->second;
}

bool BuildTexts::is_given(std::string_view flag) const {
  const auto found = texts.find(flag);
  return (found != texts.end() && !found->second.empty()) || !list(flag).empty();
}

void add_build_options(Command& verb, BuildTexts& texts, OptionVerbs verbs) {
  for (const OptionGroup group : option_groups()) {
    const OptionsUnder heading(verb, std::string(title_of(group)));
    for (const OptionRow& row : option_rows())
      if (row.group == group && row.verbs <= verbs && !row.flag.empty()) add_row(verb, texts, row);
  }
  if (verbs < OptionVerbs::kCompile) return;
  Option* tune = verb.get_option("--tune");
  tune->check_positive()->excludes("--schedule");
  verb.get_option("--optShapes")->needs(tune);
}

void check_no_build_options(const BuildTexts& texts, const std::string& file) {
  for (const OptionRow& row : option_rows())
    if (!row.flag.empty() && texts.is_given(row.name()))
      throw usage_error("{} is about compiling, and '{}' is compiled already: give the model",
                        row.name(), file);
}

BuildRequest::BuildRequest(const BuildTexts& texts, const Console& console)
    : constants_(read_tensor_files(texts.list("--constant"))),
      options_(Model(texts.model), CompileOptions()) {
  options_.monitor = monitor_of(console);
  for (const OptionRow& row : option_rows()) {
    if (!row.applied || !texts.is_given(row.name())) continue;
    for (const std::string& text : texts.list(row.name())) set_option(row, text, options_);
    if (!row.repeated) set_option(row, texts.text(row.name()), options_);
  }
  for (const auto& [name, tensor] : constants_)
    options_.constants.push_back({name, view_of(tensor)});
  options_.stop_after = texts.text("--stop-after");
  if (Dumper dumper(texts); !dumper.is_idle())
    options_.observe = [shared = std::make_shared<Dumper>(std::move(dumper))](
                           std::string_view pass, bool after, const ir::Graph& graph,
                           const std::string& entry) { (*shared)(pass, after, graph, entry); };
}

int run_each_entry(const BuildOptions& options, const RunInputs& inputs, const Console& console,
                   const RunOfEntry& run) {
  if (options.entries.empty()) return run(options, console);
  nlohmann::ordered_json report = nlohmann::ordered_json::array();
  int worst = 0;
  for (const auto& one : entries_one_by_one(options, inputs, Reporter())) {
    console.print("entry {}: {}", ir::shown(one.name), ir::shown(one.dims));
    Console own = console;
    own.collect = [&](const nlohmann::ordered_json& object) {
      report.push_back({{"entry", one.name}});
      report.back().update(object);
    };
    const int code =
        with_context(fmt::format("entry '{}'", one.name), [&] { return run(one.options, own); });
    worst = std::max(worst, code);
  }
  console.result({{"entries", report}});
  return worst;
}

}  // namespace sinter::tools
