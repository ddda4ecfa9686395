// sinter::Session: names, checks and binding; executors do the work.
#include <algorithm>
#include <atomic>

#include <fmt/format.h>
#include <sinter/sinter.h>

#include "runtime/binding.h"
#include "runtime/executor.h"

namespace sinter {
namespace {

using runtime::BoundShape;
using runtime::Executor;
using runtime::state_of;

/// Bound shapes are small; more are kept than graphs, so that going back to one stays cheap.
constexpr std::size_t kMinBoundShapes = 64;

std::unique_ptr<Executor> make_executor(const std::shared_ptr<const plan::PlanData>& plan,
                                        const SessionOptions& options) {
  if (options.threads < 0)
    throw Error(
        ErrorCode::kUsage,
        fmt::format("{} threads are not possible; 0 means all of the pool's", options.threads));
  if (plan->meta.target == "cpu") return runtime::make_cpu_executor(plan, options);
#ifdef SINTER_WITH_CUDA
  return runtime::make_cuda_executor(plan, options);
#else
  throw Error(ErrorCode::kDevice,
              "the plan is for CUDA, but this build of Sinter is CPU-only: build it with a CUDA "
              "toolkit >= 12.8 ('tools/setup --cuda' gets the needed parts), or compile the model "
              "with --target=cpu");
#endif
}

std::string join_names(const std::vector<std::unique_ptr<plan::fb::BindingT>>& bindings) {
  std::string text;
  for (const auto& binding : bindings)
    text += fmt::format("{}'{}'", text.empty() ? "" : ", ", binding->name);
  return text.empty() ? "none" : text;
}

std::size_t find_binding(const std::vector<std::unique_ptr<plan::fb::BindingT>>& bindings,
                         std::string_view name, const char* what) {
  for (std::size_t i = 0; i < bindings.size(); ++i)
    if (bindings[i]->name == name) return i;
  throw Error(ErrorCode::kUsage, fmt::format("there is no {} '{}'; the plan has {}", what, name,
                                             join_names(bindings)));
}

}  // namespace

struct Session::Impl {
  Impl(Plan plan_in, SessionOptions options_in)
      : plan(std::move(plan_in)),
        options(std::move(options_in)),
        executor(make_executor(plan.data(), options)),
        shapes(plan.data(), std::max(kMinBoundShapes, options.graph_cache)),
        inputs(meta().inputs.size()),
        outputs(meta().outputs.size()) {}

  const plan::fb::PlanT& meta() const { return plan.data()->meta; }

  /// The shape that the inputs bind. Throws Error(kUsage) if one is missing.
  std::shared_ptr<const BoundShape> bind() {
    std::vector<std::string> missing;
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (!inputs[i] && !state_of(meta(), *meta().inputs[i]))
        missing.push_back("'" + meta().inputs[i]->name + "'");
    if (!missing.empty())
      throw Error(ErrorCode::kUsage, fmt::format("input {} is not set", fmt::join(missing, ", ")));
    return shapes.get(runtime::bind_symbols(meta(), inputs));
  }

  void check_outputs(const BoundShape& shape) const {
    for (std::size_t i = 0; i < outputs.size(); ++i)
      if (outputs[i] && *outputs[i] != shape.output_shapes[i])
        throw Error(
            ErrorCode::kUsage,
            fmt::format("the memory given for output '{}' has the shape [{}], the output [{}]",
                        meta().outputs[i]->name, fmt::join(*outputs[i], ", "),
                        fmt::join(shape.output_shapes[i], ", ")));
  }

  /// Memory of states is not made anew while it holds something.
  void check_states(const BoundShape& shape) const {
    for (const auto& state : meta().states)
      if (const auto& held = inputs[state->input];
          held && *held != shape.input_shapes[state->input])
        throw Error(ErrorCode::kUsage,
                    fmt::format("state '{}' has the shape [{}]; reset_state() before it becomes "
                                "[{}]",
                                meta().inputs[state->input]->name, fmt::join(*held, ", "),
                                fmt::join(shape.input_shapes[state->input], ", ")));
  }

  void await() {
    executor->await();
    running = false;
  }

  const BoundShape& last_bound(const char* what) const {
    if (!bound) throw Error(ErrorCode::kUsage, fmt::format("{} before the first run", what));
    return *bound;
  }

  Plan plan;
  SessionOptions options;
  std::unique_ptr<Executor> executor;
  runtime::BoundShapeCache shapes;
  runtime::InputShapes inputs, outputs;
  std::shared_ptr<const BoundShape> bound;  // of the last run or warm-up
  bool running = false;
  bool has_run = false;
  std::atomic<bool> busy{false};

  /// Marks the session as in use, and notices that another thread has.
  class Use {
   public:
    explicit Use(Impl* impl) : impl_(impl) {
      if (!impl) throw Error(ErrorCode::kUsage, "the session was moved from");
      if (impl->busy.exchange(true, std::memory_order_acquire))
        throw Error(
            ErrorCode::kUsage,
            "the session is used from two threads at once: give each thread a session of its "
            "own; sessions of one plan share its weights");
    }
    ~Use() { impl_->busy.store(false, std::memory_order_release); }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    Impl* impl_;
  };
};

Session::Session(Plan plan, SessionOptions options)
    : impl_(std::make_unique<Impl>(std::move(plan), std::move(options))) {}
Session::~Session() = default;
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;

void Session::set_input(std::string_view name, const TensorView& view) {
  const Impl::Use use(impl_.get());
  const std::size_t index = find_binding(impl_->meta().inputs, name, "input");
  const auto expected = static_cast<DType>(impl_->meta().inputs[index]->dtype);
  if (view.dtype != expected)
    throw Error(ErrorCode::kUsage, fmt::format("input '{}' is of type {}; the plan takes {}", name,
                                               to_string(view.dtype), to_string(expected)));
  runtime::check_input_shape(impl_->meta(), index, view.shape);
  if (!view.data && view.byte_count() > 0)
    throw Error(ErrorCode::kUsage, fmt::format("input '{}' has no data", name));
  if (view.memory == Memory::kDevice && impl_->plan.target() == "cpu")
    throw Error(
        ErrorCode::kUsage,
        fmt::format("input '{}' is in device memory; a plan for the CPU takes host memory", name));
  impl_->executor->set_input(index, view);
  impl_->inputs[index] = view.shape;
}

void Session::set_output(std::string_view name, const TensorView& view) {
  const Impl::Use use(impl_.get());
  const std::size_t index = find_binding(impl_->meta().outputs, name, "output");
  const auto expected = static_cast<DType>(impl_->meta().outputs[index]->dtype);
  if (view.data && view.dtype != expected)
    throw Error(ErrorCode::kUsage,
                fmt::format("the memory given for output '{}' is of type {}, the output of {}",
                            name, to_string(view.dtype), to_string(expected)));
  if (view.data && view.memory == Memory::kDevice && impl_->plan.target() == "cpu")
    throw Error(
        ErrorCode::kUsage,
        fmt::format("output '{}' cannot go to device memory from a plan for the CPU", name));
  if (view.data && state_of(impl_->meta(), *impl_->meta().outputs[index]))
    throw Error(ErrorCode::kUsage,
                fmt::format("output '{}' is a state, whose memory the session keeps", name));
  impl_->executor->set_output(index, view);
  if (view.data)
    impl_->outputs[index] = view.shape;
  else
    impl_->outputs[index].reset();
}

void Session::reset_state() {
  const Impl::Use use(impl_.get());
  if (impl_->running) impl_->await();
  impl_->executor->reset_states();
  for (const auto& state : impl_->meta().states) impl_->inputs[state->input].reset();
}

void Session::run() {
  run_async();
  await();
}

void Session::run_async(void* stream) {
  const Impl::Use use(impl_.get());
  if (impl_->running) impl_->await();
  const std::shared_ptr<const BoundShape> shape = impl_->bind();
  impl_->check_outputs(*shape);
  impl_->check_states(*shape);
  impl_->executor->prepare(shape);
  impl_->bound = shape;
  impl_->has_run = false;
  impl_->executor->run(shape, stream);
  for (const auto& state : impl_->meta().states)
    impl_->inputs[state->input] = shape->input_shapes[state->input];
  impl_->running = impl_->has_run = true;
}

void Session::await() {
  const Impl::Use use(impl_.get());
  impl_->await();
}

TensorView Session::output(std::string_view name) const {
  const Impl::Use use(impl_.get());
  const std::size_t index = find_binding(impl_->meta().outputs, name, "output");
  if (!impl_->has_run)
    throw Error(ErrorCode::kUsage, fmt::format("output '{}' is asked for before a run", name));
  if (const auto state = state_of(impl_->meta(), *impl_->meta().outputs[index])) {
    if (impl_->running) impl_->await();
    return impl_->executor->state(*state, impl_->bound->output_shapes[index]);
  }
  return impl_->executor->output(index);
}

void Session::warm_up(const std::map<std::string, std::vector<std::int64_t>>& shapes) {
  const Impl::Use use(impl_.get());
  if (impl_->running) impl_->await();
  runtime::InputShapes given(impl_->inputs.size());
  for (const auto& [name, shape] : shapes) {
    const std::size_t index = find_binding(impl_->meta().inputs, name, "input");
    runtime::check_input_shape(impl_->meta(), index, shape);
    given[index] = shape;
  }
  const auto bound = impl_->shapes.get(runtime::bind_symbols(impl_->meta(), given));
  impl_->check_states(*bound);
  impl_->executor->prepare(bound);
  impl_->bound = bound;
  impl_->has_run = false;
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
  const BoundShape& shape = impl_->last_bound("bytes_moved");
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < shape.steps.count; ++i) {
    const auto& step = impl_->meta().steps[shape.steps.first + i];
    total += static_cast<std::uint64_t>(shape.expressions[step->bytes_read]) +
             static_cast<std::uint64_t>(shape.expressions[step->bytes_written]);
  }
  return total;
}

double Session::time_compute(bool cold) {
  const Impl::Use use(impl_.get());
  if (!impl_->has_run) throw Error(ErrorCode::kUsage, "time_compute before the first run");
  if (impl_->running) impl_->await();
  return impl_->executor->time_compute(cold);
}

TransferTimes Session::time_transfers() {
  const Impl::Use use(impl_.get());
  if (!impl_->has_run) throw Error(ErrorCode::kUsage, "time_transfers before the first run");
  if (impl_->running) impl_->await();
  return impl_->executor->time_transfers();
}

std::vector<StepTime> Session::profile() {
  const Impl::Use use(impl_.get());
  if (!impl_->has_run) throw Error(ErrorCode::kUsage, "profile before the first run");
  if (impl_->running) impl_->await();
  return impl_->executor->profile();
}

MachineRates Session::measure_rates() {
  const Impl::Use use(impl_.get());
  if (impl_->running) impl_->await();
  return impl_->executor->measure_rates();
}

}  // namespace sinter
