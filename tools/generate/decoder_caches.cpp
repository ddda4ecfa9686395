// SPDX-License-Identifier: Apache-2.0
// Which inputs and outputs of a decoder's plan are its caches, and how large they are.
#include <algorithm>
#include <array>

#include <fmt/ranges.h>

#include "runtime/format_error.h"
#include "runtime/plan/plan_data.h"
#include "runtime/plan_access.h"
#include "tools/generate/bindings.h"
#include "tools/generate/decoder.h"

namespace sinter::tools {
namespace {

/// How an output's name follows from that of the input it comes back as.
constexpr std::array<std::pair<std::string_view, std::string_view>, 2> kPastAndPresent = {{
    {"past_key_values.", "present."},
    {"past_", "present_"},
}};

}  // namespace

void Decoder::require_branch() const {
  if (branch_->dtype != DType::kBool || branch_->shape.size() > 1 ||
      (!branch_->shape.empty() && branch_->shape[0].max != 1))
    throw usage_error("input '{}' is not one bool", branch_->name);
}

bool Decoder::is_batch(const DimInfo& dim) const {
  return ids_.shape.size() == 2 && dim.text == ids_.shape[0].text;
}

TensorView Decoder::Cache::view(std::int64_t tokens) const {
  TensorView result{dtype, shape};
  if (growing) result.shape[*growing] = tokens;
  return result;
}

Decoder::Cache Decoder::cache_of(const BindingInfo& input, const BindingInfo& output) {
  if (input.dtype != output.dtype || input.shape.size() != output.shape.size())
    throw usage_error("cache '{}' and '{}' are of different type or rank", input.name, output.name);
  return {input.name, output.name, input.dtype, {}, {}};
}

void Decoder::clear(const Cache& cache, std::vector<std::byte>& zeros) {
  TensorView view = cache.view(0);
  zeros.resize(std::max<std::size_t>({1, zeros.size(), view.byte_count()}));
  view.data = zeros.data();
  session_.set_input(cache.input, view);
}

void Decoder::add_cache(const BindingInfo& input, const BindingInfo& output, std::int64_t context) {
  Cache cache = cache_of(input, output);
  if (input.shape.size() < 2)
    throw usage_error("cache '{}' has {} dimensions, not [.., tokens, features]", input.name,
                      input.shape.size());
  std::int64_t capacity = 0;
  for (std::size_t d = 0; d < input.shape.size(); ++d) {
    const DimInfo& dim = input.shape[d];
    if (dim.text != output.shape[d].text) {
      if (is_fixed(dim))
        throw usage_error(
            "cache '{}' has {} elements along dimension {} and comes back with '{}': "
            "compile for sizes that make both the same, or for caches that begin empty",
            input.name, dim.text, d, output.shape[d].text);
      if (dim.min != 0)
        throw usage_error(
            "cache '{}' grows along dimension {} ('{}'), "
            "but from {} on: compile with --dim {}=0..MOST",
            input.name, d, dim.text, dim.min, dim.text);
      cache.growing = d;
      capacity = dim.max + 1;  // the last token runs behind a full cache
      cache.shape.push_back(0);
    } else if (!is_fixed(dim) && is_batch(dim)) {
      cache.shape.push_back(1);
    } else if (is_fixed(dim) || (counts_by_mask() && dim.text != mask_->shape.back().text)) {
      cache.shape.push_back(dim.min);  // where it is not fixed a window, of the last tokens
    } else {
      cache.shape.push_back(std::clamp(context, dim.min, dim.max));
    }
  }
  if (!cache.growing)
    capacity = counts_by_mask() ? mask_->shape.back().max : cache.shape[cache.shape.size() - 2];
  const bool is_first = std::ranges::all_of(caches_, &Cache::is_encoders);
  capacity_ = is_first ? capacity : std::min(capacity_, capacity);
  caches_.push_back(std::move(cache));
}

void Decoder::add_encoder_cache(const BindingInfo& input, const BindingInfo& output) {
  Cache cache = cache_of(input, output);
  cache.is_encoders = true;
  caches_.push_back(std::move(cache));
}

std::int64_t Decoder::given_size(const BindingInfo& input, std::size_t dim) const {
  const DimInfo& wanted = input.shape[dim];
  if (is_fixed(wanted)) return wanted.min;
  if (is_batch(wanted)) return 1;
  const auto& inputs = plan_.inputs();
  for (const auto& [name, shape] : given_shapes_) {
    const BindingInfo& given = require_binding(inputs, name, "input", "--encoder");
    for (std::size_t d = 0; d < given.shape.size(); ++d)
      if (given.shape[d].text == wanted.text) return shape[d];
  }
  throw usage_error(
      "cache '{}' is of {} along dimension {}, which is the size of nothing that the encoder gives",
      input.name, wanted.text, dim);
}

void Decoder::clear_encoder_caches() {
  const auto& inputs = plan_.inputs();
  std::vector<std::byte> zeros;
  for (Cache& cache : caches_) {
    if (!cache.is_encoders) continue;
    const BindingInfo& input = require_binding(inputs, cache.input, "input", "--encoder");
    cache.shape.clear();
    for (std::size_t d = 0; d < input.shape.size(); ++d)
      cache.shape.push_back(given_size(input, d));
    clear(cache, zeros);
  }
}

void Decoder::find_caches(const Plan& plan, const DecoderOptions& options) {
  const auto &inputs = plan.inputs(), &outputs = plan.outputs();
  const auto is_known = [&](const BindingInfo& input) {
    const auto is = [&](const std::optional<BindingInfo>& one) {
      return one && one->name == input.name;
    };
    return input.name == ids_.name || is(place_) || is(mask_) || is(branch_) ||
           std::ranges::find(given_, input.name) != given_.end() ||
           std::ranges::any_of(caches_,
                               [&](const Cache& cache) { return cache.input == input.name; });
  };
  for (const auto& state : PlanAccess::data(plan)->meta.states)
    if (!is_known(inputs[state->input]))
      add_cache(inputs[state->input], outputs[state->output], options.context);
  kept_ = caches_.size();
  for (const auto& text : options.states) {
    const auto equals = text.find('=');
    if (equals == std::string::npos) throw usage_error("--state '{}' is not INPUT=OUTPUT", text);
    const auto& input = require_binding(inputs, text.substr(0, equals), "input", "--state");
    const auto& output = require_binding(outputs, text.substr(equals + 1), "output", "--state");
    if (!is_known(input)) add_cache(input, output, options.context);
  }
  for (const auto& input : inputs)
    for (const auto& [past, present] : kPastAndPresent)
      if (input.name.starts_with(past) && !is_known(input))
        if (const auto* output =
                find_binding(outputs, std::string(present) + input.name.substr(past.size()))) {
          if (branch_ && is_of_encoder(input))
            add_encoder_cache(input, *output);
          else
            add_cache(input, *output, options.context);
        }
  for (const auto& input : inputs)
    if (!is_known(input)) {
      if (!branch_) refuse_later_step(input);
      throw usage_error(
          "input '{}' is neither the tokens ('{}') nor their position nor a mask nor a "
          "cache: name it with --position-input, --mask-input or --state {}=OUTPUT, or give the "
          "plan that makes it with --encoder",
          input.name, ids_.name, input.name);
    }
  if (caches_.empty())
    throw usage_error(
        "the plan has no caches that keep what came before: name them with --state INPUT=OUTPUT");
  restart();
}

void Decoder::restart() {
  finish();
  position_ = 0;
  std::vector<std::byte> zeros;
  for (const Cache& cache : caches_) {
    if (!cache.is_encoders) clear(cache, zeros);  // else see clear_encoder_caches
  }
}

bool Decoder::counts_by_mask() const {
  return !place_ && mask_ && !mask_->shape.empty() && !is_fixed(mask_->shape.back());
}

bool Decoder::grows() const {
  return std::ranges::any_of(caches_, [](const Cache& cache) { return cache.growing.has_value(); });
}

std::uint64_t Decoder::cache_bytes() const {
  std::uint64_t bytes = 0;
  for (const Cache& cache : caches_) bytes += cache.view(position_).byte_count();
  return bytes;
}

std::uint64_t Decoder::valid_cache_bytes(std::int64_t position) const {
  double bytes = 0;
  for (const Cache& cache : caches_) {
    const auto all = static_cast<double>(cache.view(position).byte_count());
    bytes +=
        cache.growing || cache.is_encoders
            ? all
            : all * std::min(1.0, static_cast<double>(position) /
                                      static_cast<double>(cache.shape[cache.shape.size() - 2]));
  }
  return static_cast<std::uint64_t>(bytes);
}

void Decoder::copy_caches(Decoder& other) {
  finish();
  other.finish();
  for (const Cache& cache : caches_)
    session_.set_input(cache.input, other.session_.output(cache.output));
}

}  // namespace sinter::tools
