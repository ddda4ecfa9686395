// SPDX-License-Identifier: Apache-2.0
#include "tools/serve/models/model_description.h"

#include <sinter/engine.h>

namespace sinter::tools {
namespace {

using nlohmann::ordered_json;

ordered_json tasks_of(const ServedModel& model) {
  ordered_json tasks = ordered_json::array();
  if (model.engine() != nullptr) {
    if (model.tokenizer() != nullptr && model.chat_template() != nullptr) tasks.push_back("chat");
    tasks.push_back("completion");
    if (model.vision() != nullptr) tasks.push_back("images");
  }
  if (model.speech() != nullptr) tasks.push_back("transcription");
  if (const Embedder* embedder = model.embedder())
    tasks.push_back(embedder->ranks() ? "ranking" : "embedding");
  if (model.tensors() != nullptr) tasks.push_back("inference");
  return tasks;
}

/// What a request that names none draws with.
ordered_json sampling_of(const ServedModel& model) {
  SamplingParameters sampling;
  sampling.temperature = 1;
  model.generation_config().apply(sampling);
  ordered_json all = ordered_json::object();
  for (const SamplingRow& row : sampling_rows())
    if (row.is_whole)
      all[row.name] = static_cast<std::int64_t>(row.get(sampling));
    else
      all[row.name] = row.get(sampling);
  return all;
}

}  // namespace

ordered_json description_of(const ServedModel& model) {
  const ModelState state = model.state();
  ordered_json json = {{"id", model.name()},
                       {"object", "model"},
                       {"created", model.created()},
                       {"owned_by", "sinter"},
                       {"ready", state.is_ready}};
  if (!state.is_ready) json["error"] = state.reason;
  json["tasks"] = tasks_of(model);
  if (model.engine() != nullptr || model.embedder() != nullptr) {
    json["prompt"] = model.tokenizer() == nullptr ? "ids"
                     : model.source() != nullptr  ? "source"
                                                  : "text";
    json["max_model_len"] = model.most_tokens();
  }
  if (model.engine() == nullptr) return json;
  json["tool_calls"] =
      model.tool_form() == nullptr ? ordered_json() : ordered_json(model.tool_form()->name);
  json["sampling"] = sampling_of(model);
  return json;
}

}  // namespace sinter::tools
