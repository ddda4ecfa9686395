#include "tools/support/decoder.h"

#include <algorithm>
#include <array>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "runtime/plan/plan_data.h"
#include "tools/support/inputs.h"

namespace sinter::tools {
namespace {

std::string names_of(const std::vector<BindingInfo>& bindings) {
  std::vector<std::string> names;
  for (const auto& binding : bindings) names.push_back("'" + binding.name + "'");
  return fmt::format("{}", fmt::join(names, ", "));
}

BindingInfo require(const std::vector<BindingInfo>& bindings, const std::string& name,
                    const char* what, const char* option) {
  for (const auto& binding : bindings)
    if (binding.name == name) return binding;
  throw Error(ErrorCode::kUsage, fmt::format("the plan has no {} '{}'; it has {}. Name it with {}",
                                             what, name, names_of(bindings), option));
}

BindingInfo require_integers(const std::vector<BindingInfo>& bindings, const std::string& name,
                             const char* option) {
  const auto binding = require(bindings, name, "input", option);
  if (binding.dtype != DType::kInt64 && binding.dtype != DType::kInt32)
    throw Error(ErrorCode::kUsage,
                fmt::format("input '{}' is {}; token ids and positions are i64 or i32", name,
                            to_string(binding.dtype)));
  return binding;
}

bool is_fixed(const DimInfo& dim) { return dim.min == dim.max; }

/// How an output's name follows from that of the input it comes back as.
constexpr std::array<std::pair<std::string_view, std::string_view>, 2> kPastAndPresent = {{
    {"past_key_values.", "present."},
    {"past_", "present_"},
}};

}  // namespace

Decoder::Decoder(const Plan& plan, const DecoderOptions& options, const SessionOptions& session)
    : ids_(require_integers(plan.inputs(), options.ids, "--ids-input")),
      position_binding_(require_integers(plan.inputs(), options.position, "--position-input")),
      logits_(require(plan.outputs(), options.logits, "output", "--logits-output").name),
      session_(plan, session) {
  const auto& shape = ids_.shape;
  if (shape.empty() || shape.size() > 2 || (shape.size() == 2 && shape[0].min > 1))
    throw Error(ErrorCode::kUsage,
                fmt::format("input '{}' is not of the shape [tokens] or [1, tokens]", ids_.name));
  least_tokens_ = shape.back().min, most_tokens_ = shape.back().max;
  find_caches(plan, options);
}

void Decoder::find_caches(const Plan& plan, const DecoderOptions& options) {
  const auto inputs = plan.inputs(), outputs = plan.outputs();
  const auto has_output = [&](const std::string& name) {
    return std::any_of(outputs.begin(), outputs.end(),
                       [&](const BindingInfo& output) { return output.name == name; });
  };
  std::vector<std::pair<std::string, std::string>> kept, loose;
  for (const auto& state : plan.data()->meta.states)
    kept.emplace_back(inputs[state->input].name, outputs[state->output].name);
  for (const auto& text : options.states) {
    const auto equals = text.find('=');
    if (equals == std::string::npos)
      throw Error(ErrorCode::kUsage, fmt::format("'{}' is not INPUT=OUTPUT", text));
    const auto input = require(inputs, text.substr(0, equals), "input", "--state").name;
    loose.emplace_back(input, require(outputs, text.substr(equals + 1), "output", "--state").name);
  }
  for (const auto& input : inputs)
    for (const auto& [past, present] : kPastAndPresent)
      if (input.name.starts_with(past))
        if (auto name = std::string(present) + input.name.substr(past.size()); has_output(name)) {
          loose.emplace_back(input.name, std::move(name));
          break;
        }
  const auto is_known = [&](const std::string& input) {
    return input == ids_.name || input == position_binding_.name ||
           std::any_of(caches_.begin(), caches_.end(),
                       [&](const Cache& cache) { return cache.input == input; });
  };
  const auto add = [&](const std::string& input, const std::string& output, bool is_loose) {
    if (is_known(input)) return;
    const auto binding = require(inputs, input, "input", "--state");
    Cache cache{input, output, TensorView{binding.dtype}};
    for (const DimInfo& dim : binding.shape)
      cache.shape.shape.push_back(is_fixed(dim) ? dim.min
                                  : ids_.shape.size() == 2 && dim.text == ids_.shape[0].text
                                      ? 1
                                      : std::clamp(options.context, dim.min, dim.max));
    caches_.push_back(cache);
    if (is_loose) loose_.push_back(cache);
  };
  for (const auto& [input, output] : kept) add(input, output, false);
  for (const auto& [input, output] : loose) add(input, output, true);
  for (const auto& input : inputs)
    if (!is_known(input.name))
      throw Error(ErrorCode::kUsage,
                  fmt::format("input '{}' is neither the tokens ('{}') nor their position ('{}') "
                              "nor a cache (name its output with --state {}=OUTPUT)",
                              input.name, ids_.name, position_binding_.name, input.name));
  if (caches_.empty())
    throw Error(ErrorCode::kUsage,
                "the plan has no caches that keep what came before (name them with --state "
                "INPUT=OUTPUT)");
  for (const Cache& cache : caches_) {
    const auto& shape = cache.shape.shape;
    if (shape.size() < 2)
      throw Error(ErrorCode::kUsage,
                  fmt::format("cache '{}' has {} dimensions, not [.., tokens, features]",
                              cache.input, shape.size()));
    const auto tokens = shape[shape.size() - 2];
    capacity_ = capacity_ == 0 ? tokens : std::min(capacity_, tokens);
    cache_bytes_ += cache.shape.byte_count();
  }
  std::vector<std::byte> zeros;
  for (const Cache& cache : caches_) {
    zeros.resize(std::max(zeros.size(), cache.shape.byte_count()));
    TensorView view = cache.shape;
    view.data = zeros.data();
    session_.set_input(cache.input, view);
  }
}

std::vector<std::int64_t> Decoder::ids_shape(std::int64_t tokens) const {
  if (ids_.shape.size() == 1) return {tokens};
  return {1, tokens};
}

std::vector<std::int64_t> Decoder::position_shape(std::int64_t tokens) const {
  std::vector<std::int64_t> shape;
  for (const DimInfo& dim : position_binding_.shape) shape.push_back(is_fixed(dim) ? dim.min : 1);
  if (!shape.empty() && position_binding_.shape.back().text == ids_.shape.back().text)
    shape.back() = tokens;
  return shape;
}

void Decoder::set_integers(const BindingInfo& binding, std::vector<std::int64_t> shape,
                           std::span<const std::int64_t> values) {
  session_.set_input(binding.name,
                     view_of(ir::Tensor::from_ints(binding.dtype, std::move(shape), values)));
}

void Decoder::run_part(std::span<const std::int64_t> ids) {
  const auto tokens = static_cast<std::int64_t>(ids.size());
  set_integers(ids_, ids_shape(tokens), ids);
  const auto shape = position_shape(tokens);
  std::vector<std::int64_t> positions(static_cast<std::size_t>(
      std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>())));
  std::iota(positions.begin(), positions.end(), position_);
  set_integers(position_binding_, shape, positions);
  session_.run();
  position_ += tokens;
  for (const Cache& cache : loose_) session_.set_input(cache.input, session_.output(cache.output));
}

std::span<const float> Decoder::run(std::span<const std::int64_t> ids) {
  if (ids.empty()) throw Error(ErrorCode::kUsage, "there are no tokens to run");
  const auto tokens = static_cast<std::int64_t>(ids.size());
  if (tokens > capacity_ - position_)
    throw Error(ErrorCode::kUsage,
                fmt::format("{} tokens behind {} do not fit into caches of {} (--context)", tokens,
                            position_, capacity_));
  if (tokens < least_tokens_)
    throw Error(ErrorCode::kUsage,
                fmt::format("the plan takes {} tokens or more at a time, but is given {}",
                            least_tokens_, tokens));
  while (!ids.empty()) {
    // What is left behind a part must be enough for a run of its own.
    auto part = std::min<std::int64_t>(static_cast<std::int64_t>(ids.size()), most_tokens_);
    const auto rest = static_cast<std::int64_t>(ids.size()) - part;
    if (rest != 0 && rest < least_tokens_) part -= least_tokens_ - rest;
    run_part(ids.first(static_cast<std::size_t>(part)));
    ids = ids.subspan(static_cast<std::size_t>(part));
  }
  const TensorView logits = session_.output(logits_);
  const auto row = logits.shape.empty() ? 1 : logits.shape.back();
  const auto all = logits.element_count();
  values_.resize(static_cast<std::size_t>(row));
  if (logits.dtype == DType::kFloat32) {
    const auto last = logits.as<float>().last(values_.size());
    std::copy(last.begin(), last.end(), values_.begin());
  } else {
    const ir::Tensor tensor = tensor_of(logits);
    for (std::int64_t i = 0; i < row; ++i)
      values_[static_cast<std::size_t>(i)] = static_cast<float>(tensor.at(all - row + i));
  }
  return values_;
}

void Decoder::warm_up(std::int64_t tokens) {
  tokens = std::clamp(tokens, least_tokens_, most_tokens_);
  std::map<std::string, std::vector<std::int64_t>> shapes = {
      {ids_.name, ids_shape(tokens)}, {position_binding_.name, position_shape(tokens)}};
  for (const Cache& cache : caches_) shapes.emplace(cache.input, cache.shape.shape);
  session_.warm_up(shapes);
}

}  // namespace sinter::tools
