// SPDX-License-Identifier: Apache-2.0
#include "ir/constants/recipe.h"

#include <algorithm>
#include <cmath>

namespace sinter::ir {
namespace {

thread_local std::string reader = "code generation";

}  // namespace

void ReadLog::add_source(std::string name) {
  const std::lock_guard lock(mutex_);
  sources_.insert(std::move(name));
}

std::set<std::string> ReadLog::sources() const {
  const std::lock_guard lock(mutex_);
  return sources_;
}

void ReadLog::add(Read read) {
  const std::lock_guard lock(mutex_);
  reads_.push_back(std::move(read));
}

void ReadLog::add(Equal equal) {
  const std::lock_guard lock(mutex_);
  equals_.push_back(std::move(equal));
}

std::vector<ReadLog::Read> ReadLog::reads() const {
  const std::lock_guard lock(mutex_);
  return reads_;
}

std::vector<ReadLog::Equal> ReadLog::equals() const {
  const std::lock_guard lock(mutex_);
  return equals_;
}

ReadScope::ReadScope(std::string what) : saved_(std::move(reader)) { reader = std::move(what); }

ReadScope::~ReadScope() { reader = std::move(saved_); }

void note_read(const Buffer& traced) {
  if (const auto log = traced.recipe()->log.lock())
    log->add(ReadLog::Read{traced.recipe(), traced.plain(), reader});
}

void note_read(const Tensor& tensor) {
  if (tensor.buffer() && tensor.buffer()->recipe()) note_read(*tensor.buffer());
}

void note_equal(const std::shared_ptr<const Buffer>& a, const std::shared_ptr<const Buffer>& b) {
  if (a->recipe() == b->recipe()) return;  // also if neither is traced
  const auto& known = a->recipe() ? a->recipe() : b->recipe();
  const auto log = known->log.lock();
  if (!log) return;
  if (a->recipe() && b->recipe())
    log->add(ReadLog::Equal{a->recipe(), b->recipe()});
  else
    log->add(ReadLog::Read{known, (a->recipe() ? a : b)->plain(), reader});
}

bool differs_by_rank(const Tensor& tensor) {
  return tensor.buffer() && tensor.buffer()->recipe() && tensor.buffer()->recipe()->differs_by_rank;
}

Tensor model_tensor(const Tensor& tensor, std::string name, const std::shared_ptr<ReadLog>& log,
                    bool differs_by_rank) {
  log->add_source(name);
  if (!tensor.buffer()) return tensor;
  auto recipe = std::make_shared<Recipe>();
  recipe->source = std::move(name);
  recipe->source_type = tensor.type();
  recipe->log = log;
  recipe->differs_by_rank = differs_by_rank;
  return Tensor(tensor.dtype(), tensor.shape(), Buffer::traced(tensor.buffer(), recipe));
}

bool is_traced(std::span<const Tensor> inputs) {
  return std::ranges::any_of(
      inputs, [](const Tensor& input) { return input.buffer() && input.buffer()->recipe(); });
}

std::vector<Tensor> plain(std::span<const Tensor> inputs) {
  std::vector<Tensor> result;
  for (const Tensor& input : inputs) result.push_back(input.plain());
  return result;
}

std::vector<Tensor> traced(std::string_view name, const Attrs& attrs,
                           std::span<const Tensor> inputs, std::vector<Tensor> made, Again again) {
  if (!is_traced(inputs)) return made;
  const auto first = std::ranges::find_if(
      inputs, [](const Tensor& input) { return input.buffer() && input.buffer()->recipe(); });
  auto call = std::make_shared<Call>();
  call->name = name;
  call->attrs = attrs;
  call->inputs.assign(inputs.begin(), inputs.end());
  call->again = std::move(again);
  for (std::size_t i = 0; i < made.size(); ++i) {
    if (!made[i].buffer()) continue;
    auto recipe = std::make_shared<Recipe>();
    recipe->call = call;
    recipe->output = i;
    recipe->log = first->buffer()->recipe()->log;
    recipe->differs_by_rank =
        std::ranges::any_of(inputs, [](const Tensor& input) { return differs_by_rank(input); });
    made[i] = Tensor(made[i].dtype(), made[i].shape(), Buffer::traced(made[i].buffer(), recipe));
  }
  return made;
}

std::vector<Tensor> apply(const Transform& transform, const Attrs& attrs,
                          std::span<const Tensor> inputs) {
  return traced(transform.name, attrs, inputs, transform.apply(attrs, plain(inputs)),
                [&transform](const Attrs& of, std::span<const Tensor> others) {
                  return apply(transform, of, others);
                });
}

bool has_inputs(std::span<const Tensor> inputs, std::size_t count, int rank) {
  return inputs.size() == count && std::ranges::all_of(inputs, [&](const Tensor& input) {
           return rank < 0 || std::ssize(input.shape()) == rank;
         });
}

bool has_counts(const Attrs& attrs, std::initializer_list<std::string_view> names) {
  constexpr std::int64_t kMost = std::int64_t{1} << 26;
  const std::size_t count = attrs.get_ints(*names.begin()).size();
  return std::ranges::all_of(names, [&](std::string_view name) {
    const Ints& values = attrs.get_ints(name);
    return values.size() == count && std::ranges::all_of(values, [](std::int64_t value) {
             return value >= 0 && value <= kMost;
           });
  });
}

const Transform kIsWithin = {"is_within",
                             [](const Attrs& attrs, std::span<const Tensor> inputs) {
                               attrs.get_float("limit");
                               return has_inputs(inputs, 1);
                             },
                             [](const Attrs& attrs, std::span<const Tensor> inputs) {
                               const double limit = attrs.get_float("limit");
                               bool is_within = true;
                               for (std::int64_t i = 0; i < inputs[0].element_count(); ++i)
                                 is_within = is_within && std::abs(inputs[0].at(i)) <= limit;
                               return std::vector{Tensor::scalar(DType::kBool, is_within ? 1 : 0)};
                             },
                             1};

bool is_within(const Tensor& tensor, double limit) {
  return apply(kIsWithin, {{"limit", limit}}, std::span(&tensor, 1))[0].at(0) != 0;
}

Tensor derive(const Derivation& derivation, const Attrs& attrs, std::span<const Tensor> inputs) {
  auto [dtype, shape] = derivation.type(attrs, inputs);
  std::size_t size = size_of(dtype);
  for (const std::int64_t dim : shape) size *= static_cast<std::size_t>(dim);
  auto make = [&derivation, attrs, from = plain(inputs)] { return derivation.make(attrs, from); };
  const Tensor made(dtype, std::move(shape), Buffer::derived(size, std::move(make)));
  return traced(derivation.name, attrs, inputs, {made},
                [&derivation](const Attrs& of, std::span<const Tensor> others) {
                  return std::vector{derive(derivation, of, others)};
                })
      .front();
}

}  // namespace sinter::ir
