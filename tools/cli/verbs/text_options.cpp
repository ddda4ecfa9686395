// SPDX-License-Identifier: Apache-2.0
// Options of verbs that generate texts one at a time.
#include "tools/cli/verbs/generate_text.h"

namespace sinter::tools {

void add_text_options(Command& verb, GenerateArguments& options) {
  verb.group("Where texts end");
  verb.add_option("--max-tokens N", options.max_tokens, "Most tokens to generate")
      ->capture_default_str()
      ->check_range(1, std::int64_t{1} << 24);
  auto* stop = verb.add_option(
      "--stop TOKEN", options.prompt.stops,
      "Token (id or name) that ends the text, besides the tokenizer's special tokens");
  verb.add_flag("--no-stop", options.no_stop, "Go on to --max-tokens")->excludes(stop);

  verb.group("Drawing tokens");
  auto* greedy = verb.add_flag("--greedy", options.greedy, "The most likely token (default)");
  for (GivenDraw& draw : options.draws.given) {
    const std::string names = flag_of(*draw.row) + " " + draw.row->type;
    auto* option = draw.row->is_whole ? verb.add_option(names, draw.whole, draw.row->help)
                                      : verb.add_option(names, draw.number, draw.row->help);
    if (std::string_view(draw.row->name) == "temperature") greedy->excludes(option);
  }
  verb.add_option("--seed N", options.seed, "Seed of the draws");
  verb.add_flag("--no-generation-config", options.no_generation_config,
                "Do not draw as generation_config.json beside the tokenizer says, where nothing "
                "else is given (with do_sample its draws; repetition_penalty; eos_token_id)");

  verb.group("Constrained texts");
  ConstraintArguments& constraint = options.constraint;
  verb.add_flag("--json-object", constraint.json_object,
                "The text is a JSON object: other tokens are not drawn");
  verb.add_option("--json-schema FILE", constraint.schema_file,
                  "The text is JSON as this file, a JSON Schema, describes");
  verb.add_option("--regex EXPRESSION", constraint.regex,
                  "The text is what this expression matches");
  verb.add_option("--grammar FILE", constraint.grammar_file,
                  "The text is the rule `root` of this file, a grammar in GBNF");
  verb.add_option("--choice TEXT", constraint.choices, "The text is this, or another --choice");
}

void read_generation_config(GenerateArguments& options, const Console& console) {
  if (options.no_generation_config) return;
  options.config = GenerationConfig::beside(options.tokenizer);
  if (options.config.do_sample.value_or(false) && !options.greedy &&
      !options.draws.value("temperature"))
    console.note("tokens are drawn as generation_config.json says: --greedy takes the likeliest");
}

}  // namespace sinter::tools
