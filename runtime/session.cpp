// SPDX-License-Identifier: Apache-2.0
// sinter::Session: names, checks and binding; executors do the rest.
#include <algorithm>
#include <cstring>

#include <sinter/session.h>

#include "runtime/count_tokens.h"
#include "runtime/format_error.h"
#include "runtime/log.h"
#include "runtime/plan/extents.h"
#include "runtime/plan/ranks/state_parts.h"
#include "runtime/plan_differences.h"
#include "runtime/session_access.h"

namespace sinter {
namespace {

using Bindings = std::vector<std::unique_ptr<plan::fb::BindingT>>;

/// Minimum capacity, above that of graphs: bound shapes are small, and rebinding one costs more
/// than keeping it.
constexpr std::size_t kMinBoundShapes = 64;

/// Operators of the session's and the plan's libraries; throws if one that the plan needs is
/// missing.
std::shared_ptr<const runtime::HostOperators> operators_of(const Plan& plan,
                                                           const SessionOptions& options) {
  std::vector<OperatorLibrary> libraries = options.operator_libraries;
  if (const auto& known = PlanAccess::operators(plan))
    libraries.insert(libraries.end(), known->libraries().begin(), known->libraries().end());
  auto operators = std::make_shared<const runtime::HostOperators>(std::move(libraries));
  operators->check(PlanAccess::data(plan)->meta);
  return operators;
}

std::unique_ptr<runtime::Executor> make_executor(const Plan& of, const SessionOptions& options) {
  const auto& plan = PlanAccess::data(of);
  const auto operators = operators_of(of, options);
  if (options.threads < 0)
    throw usage_error("threads is {}, and must be 0 (all of the pool's) or more", options.threads);
  if (options.weight_budget > 0 && plan->meta.target == "cpu")
    throw usage_error(
        "a weight budget is for GPUs: a plan for the CPU reads its weights where they lie "
        "(SessionOptions::weight_budget)");
  if (plan->meta.ranks > 1) return runtime::make_ranked_executor(plan, options, operators);
  return plan->meta.target == "cpu" ? runtime::make_cpu_executor(plan, options, operators)
                                    : runtime::make_cuda_executor(plan, options, operators);
}

/// The value of a tensor with one bool or integer element.
std::int64_t element_of(const TensorView& view) {
  const auto read = [&](auto value) {
    std::memcpy(&value, view.data, sizeof value);
    return static_cast<std::int64_t>(value);
  };
  switch (view.dtype) {
    case DType::kBool: return read(std::uint8_t{}) != 0 ? 1 : 0;
    case DType::kInt8: return read(std::int8_t{});
    case DType::kUInt8: return read(std::uint8_t{});
    case DType::kInt16: return read(std::int16_t{});
    case DType::kUInt16: return read(std::uint16_t{});
    case DType::kInt32: return read(std::int32_t{});
    case DType::kUInt32: return read(std::uint32_t{});
    case DType::kInt64: return read(std::int64_t{});
    case DType::kUInt64: return read(std::uint64_t{});
    default: throw internal_error("the value of a float counts as none");
  }
}

const plan::fb::BindingT& binding_at(const Bindings& bindings, std::size_t index,
                                     const char* what) {
  return *bindings[checked_index(index, bindings.size(), what)];
}

/// Vector units accept any address, but a misaligned element address is a caller's mistake.
void check_element_alignment(const void* data, DType dtype, const char* what,
                             const std::string& name) {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  if (address % size_of(dtype) != 0)
    throw usage_error(
        "the memory of {} '{}' lies at {:#x}, which is not aligned to the {} bytes of {}", what,
        name, address, size_of(dtype), to_string(dtype));
}

/// Checks of an input that need no executor.
void check_input(const plan::fb::PlanT& meta, std::size_t index, const TensorView& view) {
  const plan::fb::BindingT& binding = binding_at(meta.inputs, index, "input");
  const auto expected = static_cast<DType>(binding.dtype);
  if (view.dtype != expected)
    throw usage_error("input '{}' is of type {}; the plan takes {}", binding.name,
                      to_string(view.dtype), to_string(expected));
  if (plan::has_parts(meta, index))
    plan::check_input_shape(meta, index, plan::shape_of_part(meta, index, view.shape));
  else
    plan::check_input_shape(meta, index, view.shape);  // copies nothing: nothing is allocated
  if (!view.data && view.byte_count() > 0)
    throw usage_error("input '{}' has no data", binding.name);
  if (view.memory == Memory::kDevice && meta.target == "cpu")
    throw usage_error("input '{}' is in device memory; a plan for the CPU takes host memory",
                      binding.name);
}

}  // namespace

Session::Impl::Use::Use(Impl* impl) : impl_(impl) {
  if (!impl) throw usage_error("the session was moved from");
  if (impl->busy.exchange(true, std::memory_order_acquire)) SessionAccess::refuse_second_thread();
}

void SessionAccess::refuse_second_thread() {
  throw usage_error(
      "the session is used from two threads at once: give each thread a session of its own; "
      "sessions of one plan share its weights");
}

Session::Impl::Impl(Plan plan_in, SessionOptions options_in,
                    std::unique_ptr<runtime::Executor> executor_in)
    : plan(std::move(plan_in)),
      options(std::move(options_in)),
      executor(std::move(executor_in)),
      shapes(PlanAccess::data(plan), std::max(kMinBoundShapes, options.graph_cache)),
      inputs(meta().inputs.size()),
      input_values(meta().inputs.size()),
      used_values(meta().inputs.size()),
      outputs(meta().outputs.size()),
      finds_sizes(plan::count_extents(meta()) > 0) {}

const std::shared_ptr<const runtime::BoundShape>& Session::Impl::bind() {
  if (current) return current;
  std::string missing;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (!inputs[i] && !runtime::state_of(meta(), *meta().inputs[i]))
      missing += fmt::format("{}'{}'", missing.empty() ? "" : ", ", meta().inputs[i]->name);
  if (!missing.empty()) throw usage_error("input {} is not set", missing);
  current = shapes.bind(inputs, input_values);
  return current;
}

void Session::Impl::note_value(std::size_t index, const TensorView& view, bool stays) {
  const auto number = plan::symbol_of_value(meta(), index);
  if (!number) return;
  const plan::fb::SymbolT& symbol = *meta().symbols[*number];
  const std::string& name = meta().inputs[index]->name;
  const bool counts = symbol.tokens_of >= 0;
  if (view.memory == Memory::kDevice)
    throw usage_error("the {} of input '{}' {}: give it in host memory",
                      counts ? "tokens" : "value", name,
                      counts ? "are counted, since the plan was compiled with --packed"
                             : "says which steps are run");
  const std::int64_t value =
      counts ? runtime::count_tokens(view, name, symbol.first_tokens) : element_of(view);
  if (input_values[index] != value) current.reset();
  input_values[index] = value;
  used_values[index] = stays ? std::optional(view) : std::nullopt;
}

void Session::Impl::set_shape(std::size_t input, const std::vector<std::int64_t>& shape) {
  if (inputs[input] && *inputs[input] == shape) return;
  inputs[input] = shape;
  current.reset();
}

void Session::Impl::put_input(std::size_t index, const TensorView& view) {
  const bool is_state = runtime::state_of(meta(), *meta().inputs[index]).has_value();
  std::vector<std::int64_t> part;
  if (plan::has_parts(meta(), index)) part = plan::shape_of_part(meta(), index, view.shape);
  const std::vector<std::int64_t>& shape = part.empty() ? view.shape : part;
  if (is_state) check_loans("a state is set");
  note_value(index, view, false);
  try {
    executor->set_input(index, view);
  } catch (...) {
    if (is_state && inputs[index] != shape) {
      // The old memory was freed for a larger allocation, which failed: the state is unset, as
      // before its first value.
      inputs[index].reset();
      current.reset();
    }
    throw;
  }
  set_shape(index, shape);
}

void Session::Impl::check_outputs(const runtime::BoundShape& shape) const {
  for (std::size_t i = 0; i < outputs.size(); ++i)
    if (outputs[i].is_given && outputs[i].shape != shape.output_shapes[i])
      throw usage_error("the memory given for output '{}' has the shape [{}], the output [{}]",
                        meta().outputs[i]->name, fmt::join(outputs[i].shape, ", "),
                        fmt::join(shape.output_shapes[i], ", "));
}

void Session::Impl::check_states(const runtime::BoundShape& shape) const {
  for (const auto& state : meta().states)
    if (const auto& held = inputs[state->input]; held && *held != shape.input_shapes[state->input])
      throw usage_error("state '{}' has the shape [{}]; reset_state() before it becomes [{}]",
                        meta().inputs[state->input]->name, fmt::join(*held, ", "),
                        fmt::join(shape.input_shapes[state->input], ", "));
}

void Session::Impl::check_loans(const char* what) const {
  if (const int count = loans.load(std::memory_order_acquire); count > 0)
    throw usage_error(
        "{} while {} of the session's outputs {} lent out through DLPack or Arrow: release it, or "
        "give the output memory of its own with set_output",
        what, count, count == 1 ? "is" : "are");
}

const runtime::BoundShape& Session::Impl::last_bound(const char* what) const {
  if (!bound) throw usage_error("{} before the first run", what);
  return *bound;
}

void Session::Impl::start(void* stream) {
  check_loans("a run");
  for (std::size_t i = 0; i < used_values.size(); ++i)
    if (const auto view = used_values[i]) note_value(i, *view, true);
  const std::shared_ptr<const runtime::BoundShape>& shape = bind();
  check_outputs(*shape);
  check_states(*shape);
  has_run = false;  // preparing may move outputs
  executor->prepare(shape);
  if (bound != shape)
    runtime::log(LogLevel::kDebug, [&] {
      std::vector<std::string> sizes;
      for (std::size_t i = 0; i < shape->symbols.size(); ++i)
        sizes.push_back(fmt::format("{}={}", meta().symbols[i]->name, shape->symbols[i]));
      return sizes.empty() ? std::string("running")
                           : fmt::format("running with {}", fmt::join(sizes, ", "));
    });
  bound = shape;
  executor->run(shape, stream);
  for (const auto& state : meta().states)
    if (!inputs[state->input]) inputs[state->input] = shape->input_shapes[state->input];
  running = has_run = true;
}

void Session::Impl::await() {
  running = false;
  // The outputs of a failed run are invalid.
  const bool had_run = std::exchange(has_run, false);
  executor->await();
  has_run = had_run;
}

const TensorView& Session::Impl::output(std::size_t index) {
  const plan::fb::BindingT& binding = binding_at(meta().outputs, index, "output");
  if (!has_run) throw usage_error("output '{}' is asked for before a run", binding.name);
  if (const auto state = runtime::state_of(meta(), binding)) {
    if (running) await();
    return executor->state(*state, bound->output_shapes[index]);
  }
  const TensorView& view = executor->output(index);
  // Output sizes that the run determines are known when it has ended.
  if (running && (view.memory == Memory::kHost || finds_sizes)) await();
  return view;
}

Session SessionAccess::make(Plan plan, SessionOptions options,
                            std::unique_ptr<runtime::Executor> executor) {
  return Session(std::make_shared<Impl>(std::move(plan), std::move(options), std::move(executor)));
}

Session::Session(std::shared_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
Session::Session(Plan plan, SessionOptions options) {
  auto executor = make_executor(plan, options);
  impl_ = std::make_shared<Impl>(std::move(plan), std::move(options), std::move(executor));
  runtime::log(LogLevel::kInfo, [&] {
    return fmt::format("a session on {}", impl_->is_on_cpu()
                                              ? "the CPU"
                                              : fmt::format("GPU {}", impl_->options.device));
  });
}
Session::~Session() = default;
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;

const Plan& Session::plan() const {
  if (!impl_) throw usage_error("the session was moved from");
  return impl_->plan;
}

void Session::set_input(std::size_t index, const TensorView& view) {
  const Impl::Use use(impl_.get());
  check_input(impl_->meta(), index, view);
  impl_->put_input(index, view);
}

void Session::set_input(std::string_view name, const TensorView& view) {
  set_input(plan().input_index(name), view);
}

void Session::set_values(std::size_t index, std::vector<std::int64_t> shape,
                         std::span<const std::byte> bytes, DType dtype) {
  const Impl::Use use(impl_.get());
  const TensorView view{dtype, std::move(shape), bytes.data()};
  const plan::fb::PlanT& meta = impl_->meta();
  check_input(meta, index, view);
  if (bytes.size() != view.byte_count())
    throw usage_error(
        "input '{}' of shape [{}] and type {} takes {} elements, {} bytes; {} elements, {} bytes, "
        "are given",
        meta.inputs[index]->name, fmt::join(view.shape, ", "), to_string(dtype),
        view.element_count(), view.byte_count(), bytes.size() / size_of(dtype), bytes.size());
  impl_->put_input(index, view);
}

void Session::set_input(std::size_t index, std::vector<std::int64_t> shape,
                        std::span<const std::byte> bytes, DType dtype) {
  set_values(index, std::move(shape), bytes, dtype);
}

void Session::set_input(std::string_view name, std::vector<std::int64_t> shape,
                        std::span<const std::byte> bytes, DType dtype) {
  set_values(plan().input_index(name), std::move(shape), bytes, dtype);
}

void Session::use_input(std::size_t index, const TensorView& view) {
  const Impl::Use use(impl_.get());
  const plan::fb::PlanT& meta = impl_->meta();
  check_input(meta, index, view);
  const std::string& name = meta.inputs[index]->name;
  if (runtime::state_of(meta, *meta.inputs[index]))
    throw usage_error(
        "input '{}' is a state, whose memory the session keeps: set_input copies a value into it",
        name);
  if (view.memory == Memory::kHost && !impl_->is_on_cpu())
    throw usage_error(
        "input '{}' is in host memory, which a GPU does not read where it lies: set_input copies "
        "it",
        name);
  if (impl_->is_on_cpu()) check_element_alignment(view.data, view.dtype, "input", name);
  impl_->note_value(index, view, true);
  impl_->executor->use_input(index, view);
  impl_->set_shape(index, view.shape);
}

void Session::use_input(std::string_view name, const TensorView& view) {
  use_input(plan().input_index(name), view);
}

void Session::set_output(std::size_t index, const MutableTensorView& view) {
  const Impl::Use use(impl_.get());
  const plan::fb::PlanT& meta = impl_->meta();
  const plan::fb::BindingT& binding = binding_at(meta.outputs, index, "output");
  if (view.data) {
    const auto expected = static_cast<DType>(binding.dtype);
    if (view.dtype != expected)
      throw usage_error("the memory given for output '{}' is of type {}, the output of {}",
                        binding.name, to_string(view.dtype), to_string(expected));
    detail::byte_count(view.shape, view.dtype);
    if (view.memory == Memory::kDevice && impl_->is_on_cpu())
      throw usage_error("output '{}' cannot go to device memory from a plan for the CPU",
                        binding.name);
    if (runtime::state_of(meta, binding))
      throw usage_error("output '{}' is a state, whose memory the session keeps", binding.name);
    if (view.memory == Memory::kHost)
      check_element_alignment(view.data, view.dtype, "output", binding.name);
  }
  impl_->executor->set_output(index, view);
  impl_->outputs[index].is_given = view.data != nullptr;
  impl_->outputs[index].shape = view.shape;
}

void Session::set_output(std::string_view name, const MutableTensorView& view) {
  set_output(plan().output_index(name), view);
}

const TensorView& Session::output(std::size_t index) const {
  const Impl::Use use(impl_.get());
  return impl_->output(index);
}

const TensorView& Session::output(std::string_view name) const {
  return output(plan().output_index(name));
}

void Session::run() {
  const Impl::Use use(impl_.get());
  impl_->start(nullptr);
  impl_->await();
}

void Session::run_async(void* stream) {
  const Impl::Use use(impl_.get());
  impl_->start(stream);
}

void Session::await() {
  const Impl::Use use(impl_.get());
  impl_->await();
}

void Session::reset_state() {
  const Impl::Use use(impl_.get());
  impl_->check_loans("reset_state");
  if (impl_->running) impl_->await();
  impl_->executor->reset_states();
  for (const auto& state : impl_->meta().states) impl_->inputs[state->input].reset();
  impl_->current.reset();
}

void Session::reset_state(const std::map<std::string, std::vector<std::int64_t>>& shapes) {
  const Impl::Use use(impl_.get());
  impl_->check_loans("reset_state");
  plan::InputShapes given(impl_->inputs.size());
  for (const auto& [name, shape] : shapes) {
    const std::size_t index = impl_->plan.input_index(name);
    if (!runtime::state_of(impl_->meta(), *impl_->meta().inputs[index]))
      throw usage_error("input '{}' is no state", name);
    given[index] = plan::shape_of_part(impl_->meta(), index, shape);
    plan::check_input_shape(impl_->meta(), index, *given[index]);
  }
  if (impl_->running) impl_->await();
  impl_->executor->reset_states();
  for (const auto& state : impl_->meta().states) impl_->inputs[state->input] = given[state->input];
  impl_->current.reset();
}

void Session::set_weights(const Plan& plan) {
  const Impl::Use use(impl_.get());
  const auto& data = PlanAccess::data(plan);
  if (const std::string other =
          runtime::difference_but_weights(*PlanAccess::data(impl_->plan), *data);
      !other.empty())
    throw usage_error(
        "the session cannot take the weights of this plan, which has other {} than its own: it "
        "takes those of plans that refitting its own makes; open a session of the other plan",
        other);
  impl_->executor->set_weights(data);
}

void Session::warm_up(const std::map<std::string, std::vector<std::int64_t>>& shapes) {
  const Impl::Use use(impl_.get());
  impl_->check_loans("warm_up");
  if (impl_->running) impl_->await();
  plan::InputShapes given(impl_->inputs.size());
  for (const auto& [name, shape] : shapes) {
    const std::size_t index = impl_->plan.input_index(name);
    given[index] = plan::shape_of_part(impl_->meta(), index, shape);
    plan::check_input_shape(impl_->meta(), index, *given[index]);
  }
  // For unset inputs whose value determines sizes, all values are prepared; unset token masks are
  // assumed full.
  std::vector<plan::InputValues> all = {impl_->input_values};
  for (const auto& symbol : impl_->meta().symbols) {
    if (symbol->tokens_of >= 0) {
      const auto index = static_cast<std::size_t>(symbol->tokens_of);
      if (!all[0][index])
        for (plan::InputValues& values : all) values[index] = plan::most_tokens(given[index]);
      continue;
    }
    const auto index = static_cast<std::size_t>(symbol->value_of);
    if (symbol->value_of < 0 || all[0][index]) continue;
    std::vector<plan::InputValues> more;
    for (std::int64_t value = symbol->min; value <= symbol->max; ++value)
      for (plan::InputValues values : all) {
        values[index] = value;
        more.push_back(std::move(values));
      }
    all = std::move(more);
  }
  for (const plan::InputValues& values : all) {
    const auto bound = impl_->shapes.bind(given, values);
    impl_->check_states(*bound);
    impl_->has_run = false;
    impl_->executor->prepare(bound);
    impl_->bound = bound;
  }
}

MemoryAccount Session::memory() const {
  const Impl::Use use(impl_.get());
  return impl_->executor->memory();
}

std::string_view Session::entry() const {
  const Impl::Use use(impl_.get());
  const plan::fb::EntryT* entry = impl_->last_bound("entry").entry;
  return entry == nullptr ? std::string_view() : std::string_view(entry->name);
}

std::size_t Session::launches() const {
  const Impl::Use use(impl_.get());
  return impl_->executor->launches();
}

std::uint64_t Session::bytes_moved() const {
  const Impl::Use use(impl_.get());
  const runtime::BoundShape& shape = impl_->last_bound("bytes_moved");
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < shape.steps.count; ++i) {
    const auto& step = impl_->meta().steps[shape.steps.first + i];
    total += static_cast<std::uint64_t>(shape.expressions[step->bytes_read]) +
             static_cast<std::uint64_t>(shape.expressions[step->bytes_written]);
  }
  return total;
}

}  // namespace sinter
