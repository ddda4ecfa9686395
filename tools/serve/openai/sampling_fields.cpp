// SPDX-License-Identifier: Apache-2.0
#include "tools/serve/openai/sampling_fields.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <string>

#include <fmt/format.h>

#include "tools/serve/api/limits.h"

namespace sinter::tools {
namespace {

using nlohmann::json;

void read_stops(RequestFields& fields, const ServedModel& model, SamplingParameters& sampling) {
  if (!fields.flag("ignore_eos")) sampling.stop_tokens = model.stop_tokens();
  const json* stop = fields.take("stop");
  if (stop == nullptr) return;
  const auto add = [&](const json& text) {
    if (!text.is_string() || text.get<std::string>().empty())
      RequestFields::fail("stop", "is neither text nor a list of texts");
    const auto& given = text.get_ref<const std::string&>();
    if (given.size() > kMostStopBytes)
      RequestFields::fail(
          "stop", fmt::format("has a text of {} bytes: {} at most", given.size(), kMostStopBytes));
    sampling.stop_strings.push_back(given);
  };
  if (stop->is_array() && stop->size() > kMostStops)
    RequestFields::fail("stop", fmt::format("has {} texts: {} at most", stop->size(), kMostStops));
  if (stop->is_array())
    for (const json& text : *stop) add(text);
  else
    add(*stop);
  if (!sampling.stop_strings.empty() && model.tokenizer() == nullptr)
    RequestFields::fail(
        "stop", fmt::format("needs text, and '{}' is served without a tokenizer", model.name()));
}

void read_bias(RequestFields& fields, SamplingParameters& sampling) {
  const json* bias = fields.take("logit_bias");
  if (bias == nullptr) return;
  if (!bias->is_object()) RequestFields::fail("logit_bias", "is no object");
  if (bias->size() > kMostBiases)
    RequestFields::fail("logit_bias",
                        fmt::format("has {} tokens: {} at most", bias->size(), kMostBiases));
  for (const auto& [token, value] : bias->items()) {
    const bool is_id = !token.empty() && token.size() < 10 &&
                       token.find_first_not_of("0123456789") == std::string::npos;
    if (!is_id)
      RequestFields::fail("logit_bias", fmt::format("has '{}', which is no token id",
                                                    token.substr(0, kMostShownBytes)));
    if (!value.is_number() || std::abs(value.get<double>()) > 100)
      RequestFields::fail("logit_bias",
                          fmt::format("of {} is {}: expected -100 to 100", token, value.dump()));
    sampling.logit_bias.emplace_back(std::stoi(token), value.get<float>());
  }
}

std::uint64_t take_seed(RequestFields& fields) {
  if (const json* seed = fields.take("seed")) {
    if (!seed->is_number_integer()) RequestFields::fail("seed", "is no integer");
    return seed->is_number_unsigned() ? seed->get<std::uint64_t>()
                                      : static_cast<std::uint64_t>(seed->get<std::int64_t>());
  }
  // Requests that name none differ from each other.
  static std::atomic<std::uint64_t> next =
      static_cast<std::uint64_t>(std::chrono::system_clock::now().time_since_epoch().count());
  return next++;
}

}  // namespace

SamplingParameters take_sampling(RequestFields& fields, const ServedModel& model) {
  SamplingParameters sampling;
  sampling.temperature = 1;
  model.generation_config().apply(sampling);
  for (const SamplingRow& row : sampling_rows()) {
    const double now = row.get(sampling);
    if (row.is_whole)
      row.set(sampling, std::max(row.least, static_cast<double>(fields.integer(
                                                row.name, static_cast<std::int64_t>(now),
                                                static_cast<std::int64_t>(row.clients_least),
                                                static_cast<std::int64_t>(row.clients_most)))));
    else
      row.set(sampling, fields.number(row.name, now, row.clients_least, row.clients_most));
  }
  sampling.seed = take_seed(fields);
  sampling.samples = static_cast<int>(fields.integer("n", 1, 1, kMostSamples));
  sampling.min_tokens = fields.integer("min_tokens", 0, 0, INT32_MAX);
  read_stops(fields, model, sampling);
  read_bias(fields, sampling);
  return sampling;
}

}  // namespace sinter::tools
