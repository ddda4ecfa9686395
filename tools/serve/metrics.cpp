// SPDX-License-Identifier: Apache-2.0
#include "tools/serve/metrics.h"

#include <algorithm>

#include <fmt/format.h>

namespace sinter::tools {
namespace {

template <typename Stats>
using ModelsOf = std::vector<std::pair<std::string, Stats>>;  // by label
using Models = ModelsOf<EngineStats>;

/// The value of a label, quoted.
std::string quoted(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '\\' || c == '"') result += '\\';
    if (c == '\n')
      result += "\\n";
    else
      result += c;
  }
  return result;
}

template <typename Stats, typename Value>
void metric(std::string& text, const ModelsOf<Stats>& models, const char* name, const char* type,
            const char* help, const Value& value) {
  text += fmt::format("# HELP sinter_{0} {1}\n# TYPE sinter_{0} {2}\n", name, help, type);
  for (const auto& [label, stats] : models)
    text += fmt::format("sinter_{}{{model=\"{}\"}} {}\n", name, label, value(stats));
}

template <typename Stats>
void histogram(std::string& text, const ModelsOf<Stats>& models, const char* name, const char* help,
               DurationHistogram Stats::*member) {
  text += fmt::format("# HELP sinter_{0} {1}\n# TYPE sinter_{0} histogram\n", name, help);
  for (const auto& [label, stats] : models) {
    const DurationHistogram& all = stats.*member;
    std::uint64_t below = 0;
    for (int i = 0; i + 1 < DurationHistogram::kBuckets; ++i) {
      below += all.counts[static_cast<std::size_t>(i)];
      text += fmt::format("sinter_{}_bucket{{model=\"{}\",le=\"{}\"}} {}\n", name, label,
                          DurationHistogram::upper_seconds(i), below);
    }
    text += fmt::format(
        "sinter_{0}_bucket{{model=\"{1}\",le=\"+Inf\"}} {2}\nsinter_{0}_sum{{model=\"{1}\"}} {3}\n"
        "sinter_{0}_count{{model=\"{1}\"}} {2}\n",
        name, label, all.count, all.seconds);
  }
}

}  // namespace

std::string metrics_text(const ModelRegistry& registry) {
  Models models;
  ModelsOf<ModelState> states;
  for (const auto& model : registry.all()) {
    states.emplace_back(quoted(model->name()), model->state());
    if (model->engine() != nullptr)
      models.emplace_back(quoted(model->name()), model->engine()->stats());
  }
  std::string text;
  metric(text, states, "model_ready", "gauge", "1 of a model that answers, 0 of one that cannot.",
         [](const ModelState& state) { return state.is_ready ? 1 : 0; });
  const auto counter = [&](const char* name, const char* help, auto value) {
    metric(text, models, name, "counter", help, value);
  };
  const auto gauge = [&](const char* name, const char* help, auto value) {
    metric(text, models, name, "gauge", help, value);
  };
  const auto of = [](auto member) { return [member](const EngineStats& s) { return s.*member; }; };
  gauge("sequences_waiting", "Sequences that wait for their first step.",
        of(&EngineStats::waiting));
  gauge("sequences_running", "Sequences that run.", of(&EngineStats::running));
  counter("requests_total", "Requests that were taken.", of(&EngineStats::requests));
  counter("requests_finished_total", "Requests that ended, for whatever reason.",
          of(&EngineStats::finished));
  text +=
      "# HELP sinter_texts_finished_total Texts that ended, by reason.\n"
      "# TYPE sinter_texts_finished_total counter\n";
  for (const auto& [label, stats] : models)
    for (std::size_t i = 1; i < stats.finished_texts.size(); ++i)
      text += fmt::format("sinter_texts_finished_total{{model=\"{}\",reason=\"{}\"}} {}\n", label,
                          to_string(static_cast<FinishReason>(i)), stats.finished_texts[i]);
  counter("prompt_tokens_total", "Tokens of prompts that were computed.",
          of(&EngineStats::prompt_tokens));
  counter("generated_tokens_total", "Tokens that were drawn.", of(&EngineStats::generated_tokens));
  counter("steps_total", "Steps of the engine.", of(&EngineStats::steps));
  counter("steps_failed_total", "Those that failed: their requests ended with an error.",
          of(&EngineStats::failed_steps));
  counter("step_sequences_total", "Sequences of all steps: batch sizes, summed.",
          of(&EngineStats::step_sequences));
  counter("step_tokens_total", "Tokens of all steps.", of(&EngineStats::step_tokens));
  if (std::ranges::any_of(models, [](const auto& m) { return !m.second.expert_tokens.empty(); })) {
    text +=
        "# HELP sinter_expert_tokens_total Tokens that each expert of each mixture computed.\n"
        "# TYPE sinter_expert_tokens_total counter\n";
    for (const auto& [label, stats] : models)
      for (std::size_t m = 0; m < stats.expert_tokens.size(); ++m)
        for (std::size_t e = 0; e < stats.expert_tokens[m].size(); ++e)
          text += fmt::format(
              "sinter_expert_tokens_total{{model=\"{}\",mixture=\"{}\",expert=\"{}\"}} {}\n", label,
              m, e, stats.expert_tokens[m][e]);
  }
  counter("preemptions_total", "Sequences that gave up their blocks for others.",
          of(&EngineStats::preemptions));
  counter("prefix_tokens_total", "Tokens that were looked up in the prefix cache.",
          of(&EngineStats::prefix_tokens));
  counter("prefix_hit_tokens_total", "Those of them that were found.",
          of(&EngineStats::prefix_hit_tokens));
  counter("draft_tokens_total", "Draft tokens that were run.", of(&EngineStats::draft_tokens));
  counter("accepted_draft_tokens_total", "Draft tokens that held.",
          of(&EngineStats::accepted_draft_tokens));
  gauge("cache_blocks", "Blocks of the cache.", of(&EngineStats::blocks));
  gauge("cache_blocks_used", "Blocks that sequences have.", of(&EngineStats::used_blocks));
  gauge("cache_blocks_cached", "Free blocks that hold a known prefix.",
        of(&EngineStats::cached_blocks));
  gauge("state_slots", "Slots of states of fixed size.", of(&EngineStats::state_slots));
  gauge("state_slots_used", "Slots that sequences have.", of(&EngineStats::used_state_slots));
  gauge("state_slots_kept", "Slots with the states behind a known prefix.",
        of(&EngineStats::kept_states));
  counter("idle_seconds_total", "Time in which nothing ran though there were requests.",
          of(&EngineStats::idle_seconds));
  counter("waiting_seconds_total", "Time without requests.", of(&EngineStats::waiting_seconds));
  histogram(text, models, "queue_seconds", "From a request to its first step.",
            &EngineStats::queue);
  histogram(text, models, "time_to_first_token_seconds", "From a request to its first token.",
            &EngineStats::first_token);
  histogram(text, models, "time_between_tokens_seconds", "From a token to the next of its text.",
            &EngineStats::between_tokens);
  ModelsOf<TensorModelStats> others;
  for (const auto& model : registry.all())
    if (model->tensors() != nullptr)
      others.emplace_back(quoted(model->name()), model->tensors()->stats());
  const auto figure = [&](const char* name, const char* type, const char* help, auto member) {
    metric(text, others, name, type, help,
           [member](const TensorModelStats& stats) { return stats.*member; });
  };
  figure("inferences_total", "counter", "Inferences that were taken.", &TensorModelStats::requests);
  figure("inferences_failed_total", "counter", "Inferences that ended with an error.",
         &TensorModelStats::failed);
  figure("inference_runs_total", "counter", "Runs, each of one or more inferences.",
         &TensorModelStats::runs);
  figure("inference_rows_total", "counter", "Rows of all runs: batch sizes, summed.",
         &TensorModelStats::rows);
  figure("inferences_waiting", "gauge", "Inferences that wait for a session.",
         &TensorModelStats::waiting);
  figure("inferences_running", "gauge", "Inferences that run.", &TensorModelStats::running);
  histogram(text, others, "inference_wait_seconds", "From a request to its run.",
            &TensorModelStats::wait);
  histogram(text, others, "inference_run_seconds", "Of a run, inputs and outputs included.",
            &TensorModelStats::run);
  return text;
}

}  // namespace sinter::tools
