// SPDX-License-Identifier: Apache-2.0
#include "tools/generate/decoder.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include <fmt/ranges.h>

#include "runtime/cpu/ops/tile_ops.h"
#include "runtime/format_error.h"
#include "runtime/plan/plan_data.h"
#include "runtime/plan_access.h"
#include "tools/compiler/inspect/step_list.h"
#include "tools/compiler/run/inputs.h"
#include "tools/generate/bindings.h"

namespace sinter::tools {
namespace {

std::optional<BindingInfo> first_of(const std::vector<BindingInfo>& bindings,
                                    const std::vector<std::string>& names) {
  for (const auto& name : names)
    if (const auto* binding = find_binding(bindings, name)) return *binding;
  return std::nullopt;
}

void require_type(const BindingInfo& binding, bool bools) {
  const DType type = binding.dtype;
  if (type == DType::kInt64 || type == DType::kInt32 || (bools && type == DType::kBool)) return;
  throw usage_error("input '{}' is {}, not i64 or i32{}", binding.name, to_string(type),
                    bools ? " or bool" : "");
}

std::int64_t count_of(const std::vector<std::int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

/// The first of `names` that is there; others than the usual ones are asked for, so one must be.
std::optional<BindingInfo> first_input(const Plan& plan, const std::vector<std::string>& names,
                                       const std::vector<std::string>& usual, const char* option) {
  const auto inputs = plan.inputs();
  const auto found = first_of(inputs, names);
  if (!found && !names.empty() && names != usual)
    return require_binding(inputs, names[0], "input", option);
  return found;
}

}  // namespace

Decoder::Decoder(const Plan& plan, const DecoderOptions& options, const SessionOptions& session)
    : plan_(plan),
      ids_(require_binding(plan.inputs(), options.ids, "input", "--ids-input")),
      place_(first_input(plan, options.position, DecoderOptions().position, "--position-input")),
      mask_(first_input(plan, options.mask, DecoderOptions().mask, "--mask-input")),
      branch_(first_of(plan.inputs(), {"use_cache_branch"})),
      given_(options.given),
      session_(plan, session) {
  require_type(ids_, false);
  require_logits(plan, options.logits);
  if (place_) require_type(*place_, false);
  if (mask_) require_type(*mask_, true);
  if (branch_) require_branch();
  const auto& shape = ids_.shape;
  if (shape.empty() || shape.size() > 2 || (shape.size() == 2 && shape[0].min > 1))
    throw usage_error("input '{}' is not of the shape [tokens] or [1, tokens]", ids_.name);
  const DimInfo& tokens = shape.back();
  for (const EntryInfo& entry : plan.entries()) {
    const auto limit = std::ranges::find_if(
        entry.limits, [&](const DimInfo& dim) { return dim.text == tokens.text; });
    const DimInfo& taken = limit == entry.limits.end() ? tokens : *limit;
    takes_.emplace_back(taken.min, taken.max);
  }
  if (takes_.empty()) takes_.emplace_back(tokens.min, tokens.max);
  count_rows(plan);
  find_caches(plan, options);
  if (!place_ && !grows() && !counts_by_mask())
    throw usage_error(
        "the plan has no input '{}' that says where tokens go in caches of a "
        "fixed size: name it with --position-input",
        fmt::join(options.position, "' or '"));
  if (mask_ && !mask_->shape.empty() && !is_fixed(mask_->shape.back()))
    capacity_ = std::min(capacity_, mask_->shape.back().max);
}

void Decoder::require_logits(const Plan& plan, const std::string& name) {
  const auto outputs = plan.outputs();
  const BindingInfo& logits = require_binding(outputs, name, "output", "--logits-output");
  if (!is_float(logits.dtype) || logits.dtype == DType::kFloat64)
    throw usage_error("output '{}' is {}, not f32, f16 or bf16", name, to_string(logits.dtype));
  logits_ = name;
  if (!logits.shape.empty() && is_fixed(logits.shape.back())) vocabulary_ = logits.shape.back().max;
}

bool Decoder::is_state(const std::string& input) const {
  const auto& meta = PlanAccess::data(plan_)->meta;
  return std::ranges::any_of(
      meta.states, [&](const auto& state) { return meta.inputs[state->input]->name == input; });
}

void Decoder::give(const std::string& name, const TensorView& view) {
  finish();
  const bool is_there = (view.memory == Memory::kHost) == (plan_.target() == "cpu");
  if (is_there)
    session_.use_input(name, view);
  else
    session_.set_input(name, view);
  given_shapes_[name] = view.shape;
  ++times_given_;
}

void Decoder::give_ones(const std::string& name, const std::vector<std::int64_t>& shape) {
  finish();
  const BindingInfo& binding = require_binding(plan_.inputs(), name, "input", "--encoder");
  set_integers(binding, shape, 1, 0);
  given_shapes_[name] = shape;
  ++times_given_;
}

std::map<std::string, std::vector<std::int64_t>> Decoder::token_shapes(
    std::int64_t tokens, std::int64_t position) const {
  std::map<std::string, std::vector<std::int64_t>> shapes;
  shapes[ids_.name] = std::vector<std::int64_t>(ids_.shape.size(), 1);
  shapes[ids_.name].back() = tokens;
  if (place_) {
    auto& shape = shapes[place_->name];
    for (const DimInfo& dim : place_->shape) shape.push_back(is_fixed(dim) ? dim.min : 1);
    if (!shape.empty() && place_->shape.back().text == ids_.shape.back().text)
      shape.back() = tokens;
  }
  if (mask_) {
    auto& shape = shapes[mask_->name];
    shape.assign(mask_->shape.size(), 1);
    if (!shape.empty()) shape.back() = position + tokens;
  }
  return shapes;
}

void Decoder::set_integers(const BindingInfo& binding, std::vector<std::int64_t> shape,
                           std::int64_t first, std::int64_t step) {
  std::vector<std::int64_t> values(static_cast<std::size_t>(count_of(shape)), first);
  for (std::size_t i = 1; i < values.size(); ++i) values[i] = values[i - 1] + step;
  session_.set_input(binding.name,
                     view_of(ir::Tensor::from_ints(binding.dtype, std::move(shape), values)));
}

void Decoder::begin(const TensorView& ids) {
  finish();
  const auto tokens = ids.shape.back();
  const auto shapes = token_shapes(tokens, position_);
  session_.set_input(ids_.name, ids);
  if (place_ && !(is_state(place_->name) && position_ > 0))
    set_integers(*place_, shapes.at(place_->name), position_, 1);
  if (mask_) set_integers(*mask_, shapes.at(mask_->name), 1, 0);
  if (branch_) choose_branch(position_ > 0);
  session_.run_async();
  in_flight_ = true;
  position_ += tokens;
}

void Decoder::finish() {
  if (!in_flight_) return;
  session_.await();
  in_flight_ = false;
  // Grown caches would be longer than the plan takes.
  if (position_ >= capacity_ && grows()) return;
  for (const Cache& cache : std::span(caches_).subspan(kept_))
    if (!cache.is_encoders || !has_caches_)
      session_.set_input(cache.input, session_.output(cache.output));
}

void Decoder::choose_branch(bool has_caches) {
  finish();  // of a run that may have had another
  if (has_caches && has_caches_) return;
  if (!has_caches) clear_encoder_caches();
  const std::uint8_t value = has_caches ? 1 : 0;
  const std::vector<std::int64_t> shape(branch_->shape.size(), 1);
  session_.set_input(branch_->name, TensorView{DType::kBool, shape, &value, Memory::kHost});
  has_caches_ = has_caches;
}

std::int64_t Decoder::part_of(std::int64_t tokens) const {
  // What is left behind a part must be enough for a run of its own.
  const auto fits = [&](std::int64_t count) {
    return count == 0 ||
           std::ranges::any_of(takes_, [&](const auto& range) { return count >= range.first; });
  };
  std::int64_t best = 0;
  for (const auto& [least, most] : takes_) {
    std::int64_t part = std::min(tokens, most);
    while (part >= least && !fits(tokens - part)) --part;
    if (part >= least) best = std::max(best, part);
  }
  if (best == 0)
    throw usage_error("the plan takes {} tokens or more at a time, but {} are left",
                      std::ranges::min_element(takes_)->first, tokens);
  return best;
}

void Decoder::run_parts(std::span<const std::int64_t> ids) {
  if (ids.empty()) throw usage_error("there are no tokens to run");
  const auto tokens = std::ssize(ids);
  for (const std::int64_t id : ids)
    if (vocabulary_ > 0 && (id < 0 || id >= vocabulary_))
      throw usage_error("token id {} is none of the model's {}", id, vocabulary_);
  if (tokens > capacity_ - position_)
    throw usage_error(
        "{} tokens behind {} do not fit into caches of {}: compile for more "
        "(--dim), or give a greater --context where that leaves it open",
        tokens, position_, capacity_);
  while (!ids.empty()) {
    const std::int64_t part = part_of(std::ssize(ids));
    const auto values = ids.first(static_cast<std::size_t>(part));
    begin(view_of(
        ir::Tensor::from_ints(ids_.dtype, token_shapes(part, position_).at(ids_.name), values)));
    ids = ids.subspan(static_cast<std::size_t>(part));
  }
}

std::span<const float> Decoder::run(std::span<const std::int64_t> ids) {
  run_parts(ids);
  return last_logits(1);
}

std::span<const float> Decoder::last_logits(std::int64_t rows) {
  finish();
  const TensorView logits = session_.output(logits_);
  const auto count = rows * (logits.shape.empty() ? 1 : logits.shape.back());
  const auto all = logits.element_count();
  if (count > all) throw internal_error("logits of {} rows were asked for", rows);
  if (logits.dtype == DType::kFloat32)
    return logits.as<float>().last(static_cast<std::size_t>(count));
  values_.resize(static_cast<std::size_t>(count));
  const auto* last = static_cast<const std::byte*>(logits.data) +
                     static_cast<std::size_t>(all - count) * size_of(logits.dtype);
  runtime::cpu::widen(logits.dtype, last, values_.data(), count);
  return values_;
}

void Decoder::count_rows(const Plan& plan) {
  const auto& outputs = plan.outputs();
  const BindingInfo& logits = *find_binding(outputs, logits_);
  const DimInfo& tokens = ids_.shape.back();
  const bool has_all = std::ranges::any_of(
      logits.shape, [&](const DimInfo& dim) { return dim.text == tokens.text; });
  if (!has_all) return;
  constexpr std::int64_t kEnough = 64;
  while (most_rows_ < kEnough && runs_at_once(most_rows_ + 1)) ++most_rows_;
}

bool Decoder::runs_at_once(std::int64_t tokens) const {
  return std::ranges::any_of(
      takes_, [&](const auto& range) { return range.first <= tokens && tokens <= range.second; });
}

bool Decoder::seeks() const {
  return place_ && !is_state(place_->name) && !grows() && runs_at_once(1);
}

void Decoder::seek(std::int64_t position) {
  finish();
  position_ = position;
}

std::map<std::string, std::vector<std::int64_t>> Decoder::all_shapes(std::int64_t tokens,
                                                                     std::int64_t position) const {
  auto shapes = token_shapes(part_of(tokens), position);
  shapes.insert(given_shapes_.begin(), given_shapes_.end());
  for (const Cache& cache : caches_) shapes.emplace(cache.input, cache.view(position).shape);
  return shapes;
}

void Decoder::warm_up(std::int64_t tokens, std::int64_t position) {
  if (branch_) choose_branch(position > 0);
  session_.warm_up(all_shapes(tokens, position));
}

std::uint64_t Decoder::weight_bytes() const {
  return weight_bytes_read(plan_, all_shapes(1, std::min(position_, capacity_ - 1)));
}

std::uint64_t weight_bytes_read(const Plan& plan, const Shapes& shapes) {
  const auto& meta = PlanAccess::data(plan)->meta;
  const auto values = bind_shapes(meta, shapes);
  // A step that gathers rows of a table says that it reads as much as these have.
  std::map<std::uint32_t, std::int64_t> read;
  const plan::StepRange steps = steps_for(meta, values);
  for (std::size_t i = 0; i < meta.steps.size(); ++i) {
    if (!steps.contains(i)) continue;
    const auto& step = *meta.steps[i];
    for (const std::uint32_t buffer : step.reads)
      if (meta.buffers[buffer]->kind == plan::fb::BufferKind::Weight)
        read[buffer] = std::max(
            read[buffer], std::min(values[meta.buffers[buffer]->bytes], values[step.bytes_read]));
  }
  std::int64_t bytes = 0;
  for (const auto& [buffer, most] : read) bytes += most;
  return static_cast<std::uint64_t>(bytes);
}

}  // namespace sinter::tools
