// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include <fmt/ranges.h>

#include "ir/text/similar.h"
#include "runtime/format_error.h"
#include "tools/cli/help/completion.h"
#include "tools/cli/help/help_text.h"
#include "tools/cli/help/topics.h"
#include "tools/cli/verbs/verbs.h"
#include "tools/compiler/options/option_table.h"

namespace sinter::tools {
namespace {

using nlohmann::ordered_json;

std::vector<std::string> names_of(const std::vector<HelpFile>& files) {
  std::vector<std::string> names;
  names.reserve(files.size());
  for (const HelpFile& file : files) names.emplace_back(file.name);
  return names;
}

void list_topics(const Command& root, const Console& console) {
  ordered_json report = {{"topics", ordered_json::array()}, {"verbs", ordered_json::array()}};
  console.print("sinter help TOPIC: a page; sinter help VERB: what a verb takes\n\nTopics:");
  for (const Topic& topic : topics()) {
    console.print("  {:<14}{}", topic.name, wrap(topic.summary, 16));
    report["topics"].push_back({{"name", topic.name}, {"summary", topic.summary}});
  }
  console.print("\nVerbs:");
  for (const VerbHelp& verb : verbs_of(root)) {
    console.print("  {:<14}{}", verb.name, wrap(verb.description, 16));
    report["verbs"].push_back({{"name", verb.name}, {"summary", verb.description}});
  }
  console.result(report);
}

/// Shows the help of a verb, the page of a topic, or both.
void show(const Command& root, const std::string& word, const Console& console) {
  ordered_json report;
  for (const VerbHelp& verb : verbs_of(root))
    if (verb.name == word) {
      console.print(help_text(verb, general_help(root)));
      report = to_json(verb);
    }
  std::vector<std::string> known;
  for (const Topic& topic : topics()) {
    known.push_back(topic.name);
    if (topic.name != word) continue;
    const std::string_view page = find_file(help_pages(), word)->text;
    console.print(page_text(page, kHelpWidth));
    report["topic"] = word;
    report["page"] = page;
  }
  if (report.is_null()) {
    for (const VerbHelp& verb : verbs_of(root)) known.push_back(verb.name);
    throw usage_error("there is no topic '{}'{}; `sinter help` lists them", word,
                      ir::did_you_mean(word, known));
  }
  console.result(report);
}

/// Lists the compile options with all their names.
void list_options(const Console& console) {
  constexpr std::string_view kVerbs[] = {"all that compile", "all that compile but compare",
                                         "compile, verify", "compile", "Python alone"};
  ordered_json report = ordered_json::array();
  for (const OptionGroup group : option_groups()) {
    console.print("\n{}\n", title_of(group));
    for (const OptionRow& row : option_rows()) {
      if (row.group != group) continue;
      std::string line = fmt::format("{} {}", row.flag, row.values.empty() ? row.type : row.values);
      if (!row.keyword.empty()) line += fmt::format(" ({}= in Python)", row.keyword);
      console.print("{}", wrap(line, 2));
      console.print("    {}", wrap(std::string(row.help), 4));
      report.push_back({{"flag", row.flag},
                        {"keyword", row.keyword},
                        {"field", row.field},
                        {"type", row.type},
                        {"kind", to_string(row.kind)},
                        {"values", row.values},
                        {"default", row.standard},
                        {"repeated", row.repeated},
                        {"group", title_of(row.group)},
                        {"verbs", kVerbs[static_cast<int>(row.verbs)]},
                        {"in_manifest", row.recorded != Recorded::kNever},
                        {"help", row.help}});
    }
  }
  console.result({{"options", report}});
}

void show_schema(const std::string& verb, const Console& console) {
  const HelpFile* schema = find_file(json_schemas(), verb + ".json");
  if (schema == nullptr) {
    std::vector<std::string> verbs = names_of(json_schemas());
    for (std::string& name : verbs) name.resize(name.rfind('.'));
    throw usage_error("--json-schema: no schema is named '{}'; there are {}", verb,
                      fmt::join(verbs, ", "));
  }
  console.print(schema->text);
  console.result(ordered_json::parse(schema->text));
}

struct HelpArguments {
  std::string topic, schema;
  bool options = false;
};

}  // namespace

std::vector<VerbHelp> verbs_of(const Command& root) {
  std::vector<VerbHelp> verbs;
  for (const auto& command : root.commands())
    if (VerbHelp verb = command->describe(); !verb.name.empty()) verbs.push_back(std::move(verb));
  return verbs;
}

VerbHelp general_help(const Command& root) {
  VerbHelp general = root.describe();
  general.name.clear();
  return general;
}

void add_help(Cli& cli) {
  auto options = std::make_shared<HelpArguments>();
  auto* verb = cli.app.add_subcommand("help", "Show a page, or what a verb takes");
  auto* topic = verb->add_option("topic", options->topic, "Topic or verb; without one, a list");
  verb->group("Lists and schemas");
  verb->add_flag("--options", options->options,
                 "The options of compiling: flags, keywords of Python, defaults")
      ->excludes(topic);
  verb->add_option("--json-schema VERB", options->schema,
                   "The JSON Schema of what a verb prints with --json; error: of errors")
      ->excludes(topic);
  verb->example("sinter help options");
  verb->example("sinter help compile --json", "the options as data");
  verb->example("sinter help --json-schema bench");
  verb->callback([options, &cli] {
    if (options->options) return list_options(cli.console);
    if (!options->schema.empty()) return show_schema(options->schema, cli.console);
    options->topic.empty() ? list_topics(cli.app, cli.console)
                           : show(cli.app, options->topic, cli.console);
  });
}

void add_completion(Cli& cli) {
  auto shell = std::make_shared<std::string>();
  auto* verb = cli.app.add_subcommand("completion", "Print what completes commands in a shell");
  verb->add_option("shell", *shell, "bash, zsh or fish")->required()->check_one_of(shells());
  verb->example("sinter completion bash > sinter.bash", "then in ~/.bashrc: . sinter.bash");
  verb->example("sinter completion zsh > _sinter", "in a folder of $fpath");
  verb->example("sinter completion fish > sinter.fish", "in ~/.config/fish/completions");
  verb->callback([shell, &cli] {
    std::vector<std::string> names;
    for (const Topic& topic : topics()) names.push_back(topic.name);
    const std::string text =
        completion_for(*shell, general_help(cli.app), verbs_of(cli.app), names);
    cli.console.print(text);
    cli.console.result({{"shell", *shell}, {"text", text}});
  });
}

}  // namespace sinter::tools
