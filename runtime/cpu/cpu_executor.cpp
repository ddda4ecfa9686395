// SPDX-License-Identifier: Apache-2.0
// Runs plans on the CPU: loop programs over tiles; GEMMs and convolutions through oneDNN.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <type_traits>
#include <variant>

#include "runtime/cpu/host_buffer.h"
#include "runtime/cpu/machine_rates.h"
#include "runtime/cpu/ops/element.h"
#include "runtime/cpu/prepared_step.h"
#include "runtime/executor.h"
#include "runtime/format_error.h"
#include "runtime/plan/expressions.h"
#include "runtime/plan/extents.h"
#include "runtime/plan/verify/verify_plan.h"
#include "runtime/profiler/profiler_range.h"
#include "runtime/threads/openmp.h"
#include "runtime/threads/thread_pool.h"

namespace sinter::runtime {
namespace cpu {
namespace {

using plan::fb::BufferKind;

/// Maximum number of cached shapes. Preparing one again takes less time than a run of most models.
constexpr std::size_t kMaxPrepared = 64;
/// Overwritten before a cold measurement: more than the last-level caches of common CPUs.
constexpr std::size_t kFlushBytes = std::size_t{256} << 20;

int threads_of(const SessionOptions& options) {
  const int most = thread_pool_size();
  return options.threads == 0 ? most : std::min(options.threads, most);
}

/// Scope in which a thread computes a session's work.
struct Computing {
  threads::ThreadPool::Caller caller;
  threads::NoOpenMpTeams alone;
};

struct Prepared {
  std::shared_ptr<const BoundShape> shape;  // with the upper bounds of sizes that a run determines
  std::vector<PreparedStep> steps;
  std::uint64_t last_use = 0;
  /// Only for plans with such sizes: sizes of the last run, and the steps to remake for them.
  std::optional<BoundShape> found;
  std::vector<bool> stale;
  std::vector<std::string> ranges;  // step names for a profiler; empty if none is attached
  std::vector<std::size_t> joined;  // as joined_steps()

  const BoundShape& current() const { return found ? *found : *shape; }
};

class CpuExecutor final : public Executor {
 public:
  CpuExecutor(std::shared_ptr<const plan::PlanData> plan, const SessionOptions& options,
              std::shared_ptr<const HostOperators> operators, RankPlace ranks)
      : plan_(std::move(plan)),
        ranks_(std::move(ranks)),
        operators_(std::move(operators)),
        allocator_(options.allocator),
        meta_(plan_->meta),
        threads_(threads_of(options)),
        max_iterations_(options.max_iterations),
        weights_(PackedWeights::of(plan_)),
        inputs_(buffers(meta_.inputs.size(), options)),
        outputs_(buffers(meta_.outputs.size(), options)),
        given_inputs_(meta_.inputs.size(), nullptr),
        given_outputs_(meta_.outputs.size(), nullptr),
        states_(buffers(meta_.states.size(), options)),
        output_views_(meta_.outputs.size()),
        state_views_(meta_.states.size()),
        workspace_(buffers(static_cast<std::size_t>(threads_), options)),
        arena_(options.allocator),
        addresses_(meta_.buffers.size(), nullptr),
        extents_(plan::count_extents(meta_)) {}

  void prepare(const std::shared_ptr<const BoundShape>& shape) override {
    Prepared* prepared = find(*shape);
    if (!prepared) {
      const PackedWeights::Lock lock = weights_->lock();
      const Computing computing;
      Prepared fresh{shape, {}, 0, {}, {}, {}, {}};
      for (std::size_t i = 0; i < shape->steps.count; ++i) {
        const plan::fb::StepT& step = *meta_.steps[shape->steps.first + i];
        fresh.steps.push_back(
            with_context("step '" + step.name + "'", [&] { return maker().make(step, *shape); }));
        fresh.ranges.push_back(range_name(step.name, step.origins));
      }
      if (!extents_.empty()) {
        fresh.found = *shape;
        fresh.stale.assign(shape->steps.count, false);
        fresh.joined.assign(shape->steps.count, 1);
      } else {
        fresh.joined = joined_steps(meta_, fresh.steps);
      }
      reserve(fresh);
      if (prepared_.size() >= kMaxPrepared)
        prepared_.erase(std::ranges::min_element(prepared_, [](const auto& a, const auto& b) {
          return a.second.last_use < b.second.last_use;
        }));
      prepared = &(prepared_[shape->symbols] = std::move(fresh));
    }
    prepared->last_use = ++clock_;
    account_ = prepared->shape;
  }

  void set_input(std::size_t index, const TensorView& view) override {
    const std::size_t bytes = view.byte_count();
    const auto state = state_of(meta_, *meta_.inputs[index]);
    if (state)
      reserve_state(*state, bytes);
    else
      inputs_[index].reserve(bytes, "input", meta_.inputs[index]->name);
    HostBuffer& buffer = state ? states_[*state] : inputs_[index];
    if (bytes > 0) std::memmove(buffer.data(), view.data, bytes);
    if (view.dtype == DType::kBool) make_bools_plain({buffer.data(), bytes});
    given_inputs_[index] = nullptr;
  }

  void use_input(std::size_t index, const TensorView& view) override {
    // Steps only read inputs (checked by verify_plan). An empty tensor may have a null address.
    if (!view.data) return set_input(index, view);
    given_inputs_[index] = static_cast<std::byte*>(const_cast<void*>(view.data));
  }

  std::byte* stage_input(std::size_t index, std::size_t bytes) override {
    inputs_[index].reserve(bytes, "input", meta_.inputs[index]->name);
    given_inputs_[index] = nullptr;
    return inputs_[index].data();
  }

  void await_event(void*) override {
    throw usage_error("a session on the CPU takes no CUDA events");
  }

  void set_output(std::size_t index, const MutableTensorView& view) override {
    given_outputs_[index] = static_cast<std::byte*>(view.data);
  }

  void run(const std::shared_ptr<const BoundShape>& shape, void*) override {
    Prepared& prepared = *find(*shape);
    const PackedWeights::Lock lock = weights_->lock();
    last_ = &prepared;
    last_shape_ = prepared.shape;
    const Computing computing;
    bind_addresses(*prepared.shape);
    for (std::size_t i = 0; i < output_views_.size(); ++i) {
      const plan::fb::BindingT& binding = *meta_.outputs[i];
      output_views_[i].dtype = static_cast<DType>(binding.dtype);
      output_views_[i].shape = prepared.shape->output_shapes[i];
      output_views_[i].data = addresses_[binding.buffer];
    }
    run_steps(prepared, [&](std::size_t i) { run_joined(prepared, i); });
    for (std::size_t i = 0; prepared.found && i < output_views_.size(); ++i)
      for (std::size_t d = 0; d < output_views_[i].shape.size(); ++d)
        output_views_[i].shape[d] = prepared.found->expressions[meta_.outputs[i]->shape[d]];
  }

  void await() override {}

  const TensorView& output(std::size_t index) const override { return output_views_[index]; }

  const TensorView& state(std::size_t index, const std::vector<std::int64_t>& shape) override {
    TensorView& view = state_views_[index];
    view.dtype = static_cast<DType>(meta_.inputs[meta_.states[index]->input]->dtype);
    view.shape = shape;
    view.data = states_[index].data();
    return view;
  }

  void copy_state_rows(std::size_t index, const std::vector<std::int64_t>& shape, std::int64_t from,
                       std::int64_t to, std::int64_t count) override {
    const StateRowCopy copy(static_cast<DType>(meta_.inputs[meta_.states[index]->input]->dtype),
                            shape, from, to, count);
    for (std::size_t i = 0; i < copy.copies; ++i) {
      std::byte* const rows = states_[index].data() + i * copy.step;
      std::memcpy(rows + copy.to, rows + copy.from, copy.bytes);
    }
  }

  void reset_states() override {
    for (HostBuffer& state : states_)
      if (state.capacity() > 0) std::memset(state.data(), 0, state.capacity());
  }

  void set_weights(const std::shared_ptr<const plan::PlanData>& plan) override {
    const Computing computing;
    PackedWeights::replace(weights_, plan);
  }

  MemoryAccount memory() const override {
    MemoryAccount account;
    account.weights = plan_->weights.size() + weights_->bytes();
    if (account_) {
      account.arena = account_->layout.arena_bytes;
      account.arena_without_reuse = account_->layout.unshared_bytes;
    }
    for (const HostBuffer& workspace : workspace_) account.workspace += workspace.capacity();
    for (const auto& [symbols, prepared] : prepared_)
      for (const PreparedStep& step : prepared.steps) account.workspace += own_bytes(step);
    for (const HostBuffer& input : inputs_) account.io += input.capacity();
    for (const HostBuffer& output : outputs_) account.io += output.capacity();
    for (const HostBuffer& state : states_) account.io += state.capacity();
    return account;
  }

  std::size_t launches() const override {
    return account_ ? account_->steps.count : meta_.steps.size();
  }

  double time_compute(bool cold) override {
    const Computing computing;
    const PackedWeights::Lock lock = weights_->lock();
    bind_addresses(*last_shape_);
    if (cold) flush_caches();
    const auto start = std::chrono::steady_clock::now();
    run_steps(*last_, [&](std::size_t i) { run_joined(*last_, i); });
    return microseconds_since(start);
  }

  std::vector<StepTime> profile() override {
    const Computing computing;
    const PackedWeights::Lock lock = weights_->lock();
    bind_addresses(*last_shape_);
    const auto value = [&](std::uint32_t expression) {
      return static_cast<std::uint64_t>(last_->current().expressions[expression]);
    };
    flush_caches();
    std::vector<double> spent(last_->steps.size(), 0);
    std::vector<std::size_t> runs(last_->steps.size(), 0);
    std::vector<std::string> notes(last_->steps.size());
    run_steps(*last_, [&](std::size_t i) {
      const auto start = std::chrono::steady_clock::now();
      run_step(*last_, i);
      spent[i] += microseconds_since(start);
      ++runs[i];
      if (const auto* call = std::get_if<OperatorStep>(&last_->steps[i]))
        notes[i] = call->note(addresses_);
    });
    std::vector<StepTime> times;
    for (std::size_t i = 0; i < last_->steps.size(); ++i) {
      const plan::fb::StepT& step = *meta_.steps[last_shape_->steps.first + i];
      StepTime time;
      time.name = step.name;
      time.microseconds = spent[i];
      time.bytes = runs[i] * (value(step.bytes_read) + value(step.bytes_written));
      time.flops = runs[i] * value(step.flops);
      time.arithmetic = plan::fb::EnumNameArithmetic(step.arithmetic);
      time.origins = step.origins;
      time.how = std::move(notes[i]);
      time.parts.push_back({kind_of(last_->steps[i]), time.microseconds, runs[i], std::nullopt});
      times.push_back(std::move(time));
    }
    return times;
  }

  MachineRates measure_rates() override {
    const Computing computing;
    return measure_machine(threads_);
  }

 private:
  static std::vector<HostBuffer> buffers(std::size_t count, const SessionOptions& options) {
    std::vector<HostBuffer> result;
    for (std::size_t i = 0; i < count; ++i) result.emplace_back(options.allocator);
    return result;
  }

  StepMaker maker() const {
    return {*plan_, *weights_, operators_.get(), threads_, allocator_, ranks_};
  }

  Prepared* find(const BoundShape& shape) {
    const auto found = prepared_.find(shape.symbols);
    return found == prepared_.end() ? nullptr : &found->second;
  }

  /// Reserves all memory of a run, so that the run allocates nothing.
  void reserve(const Prepared& prepared) {
    const BoundShape& shape = *prepared.shape;
    arena_.reserve(shape.layout.arena_bytes, "the arena");
    reserve_workspace(prepared.steps, prepared.joined);
    for (std::size_t s = 0; s < states_.size(); ++s)
      reserve_state(s,
                    shape.bytes_of(*meta_.buffers[meta_.inputs[meta_.states[s]->input]->buffer]));
    for (std::size_t i = 0; i < inputs_.size(); ++i)
      if (!given_inputs_[i] && !state_of(meta_, *meta_.inputs[i]))
        inputs_[i].reserve(shape.bytes_of(*meta_.buffers[meta_.inputs[i]->buffer]), "input",
                           meta_.inputs[i]->name);
    for (std::size_t i = 0; i < outputs_.size(); ++i)
      if (!given_outputs_[i] && !state_of(meta_, *meta_.outputs[i]))
        outputs_[i].reserve(shape.bytes_of(*meta_.buffers[meta_.outputs[i]->buffer]), "output",
                            meta_.outputs[i]->name);
  }

  void reserve_workspace(std::span<const PreparedStep> steps, std::span<const std::size_t> joined) {
    std::size_t workspace = 0, sum = 0;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      sum = workspace_bytes(steps[i]) + (joined[i] == 0 ? sum : 0);
      workspace = std::max(workspace, sum);
    }
    for (HostBuffer& one : workspace_) one.reserve(workspace, "the workspace of a thread");
    workspace_addresses_.clear();
    for (const HostBuffer& one : workspace_) workspace_addresses_.push_back(one.data());
  }

  /// Grows a state by zeros.
  void reserve_state(std::size_t index, std::size_t bytes) {
    states_[index].reserve(bytes, "state", meta_.inputs[meta_.states[index]->input]->name);
  }

  /// Calls visit(from, count) for all bytes, in pieces that threads share.
  template <typename Visit>
  void by_pieces(std::size_t bytes, const Visit& visit) const {
    constexpr std::size_t kPiece = 64 << 10;
    constexpr double kBytesPerNanosecond = 32;
    const int team = threads::team_for(static_cast<double>(bytes) / kBytesPerNanosecond, threads_);
    if (team == 1) return visit(std::size_t{0}, bytes);
    threads::run_parts(static_cast<std::int64_t>((bytes + kPiece - 1) / kPiece), team,
                       [&](threads::Member& member) {
                         while (const auto part = member.next()) {
                           const std::size_t from = static_cast<std::size_t>(*part) * kPiece;
                           visit(from, std::min(kPiece, bytes - from));
                         }
                       });
  }

  /// The check reads as much as the step that reads the bools next.
  bool are_plain(std::span<const std::byte> bools) const {
    std::atomic<bool> plain{true};
    by_pieces(bools.size(), [&](std::size_t from, std::size_t count) {
      if (!are_plain_bools(bools.subspan(from, count)))
        plain.store(false, std::memory_order_relaxed);
    });
    return plain.load(std::memory_order_relaxed);
  }

  /// The user's memory for input `index`, or a copy with normalized bools: kernels require 0 or 1.
  std::byte* given_input(std::size_t index, std::size_t bytes) {
    std::byte* given = given_inputs_[index];
    const auto dtype = static_cast<DType>(meta_.inputs[index]->dtype);
    if (dtype != DType::kBool || are_plain({given, bytes})) return given;
    inputs_[index].reserve(bytes, "input", meta_.inputs[index]->name);
    std::memcpy(inputs_[index].data(), given, bytes);
    make_bools_plain({inputs_[index].data(), bytes});
    return inputs_[index].data();
  }

  void bind_addresses(const BoundShape& shape) {
    for (std::size_t i = 0; i < meta_.buffers.size(); ++i) {
      const plan::fb::BufferT& buffer = *meta_.buffers[i];
      switch (buffer.kind) {
        case BufferKind::Input:
          addresses_[i] = given_inputs_[buffer.binding]
                              ? given_input(buffer.binding, shape.bytes_of(buffer))
                              : inputs_[buffer.binding].data();
          break;
        case BufferKind::Output:
          if (!given_outputs_[buffer.binding])
            outputs_[buffer.binding].reserve(shape.bytes_of(buffer), "output",
                                             meta_.outputs[buffer.binding]->name);
          addresses_[i] = given_outputs_[buffer.binding] ? given_outputs_[buffer.binding]
                                                         : outputs_[buffer.binding].data();
          break;
        case BufferKind::Weight:
          addresses_[i] = const_cast<std::byte*>(weights_->section() + buffer.weight_offset);
          break;
        case BufferKind::State: addresses_[i] = states_[buffer.binding].data(); break;
        case BufferKind::Arena: addresses_[i] = arena_.data() + shape.layout.offsets[i]; break;
        case BufferKind::Extent:
          addresses_[i] = reinterpret_cast<std::byte*>(&extents_[buffer.binding]);
          break;
      }
    }
  }

  /// Calls `run` for each executed step of a run: loop bodies in each iteration, branches if taken.
  template <class Run>
  void run_steps(Prepared& prepared, const Run& run) {
    iterations_ = 0;
    run_steps(prepared, 0, prepared.steps.size(), run);
  }

  template <class Run>
  void run_steps(Prepared& prepared, std::size_t first, std::size_t last, const Run& run) {
    for (std::size_t i = first; i < last; ++i) {
      run(i);
      if (const auto* loop = std::get_if<While>(&prepared.steps[i])) {
        run_loop(prepared, i, *loop, run);
        i += loop->steps;
      } else if (const auto* branch = std::get_if<If>(&prepared.steps[i])) {
        const std::size_t middle = i + 1 + branch->then_steps, end = middle + branch->else_steps;
        const bool is_true = addresses_[branch->condition][0] != std::byte{0};
        run_steps(prepared, is_true ? i + 1 : middle, is_true ? middle : end, run);
        i = end - 1;
      }
    }
  }

  template <class Run>
  void run_loop(Prepared& prepared, std::size_t at, const While& loop, const Run& run) {
    for (std::int64_t done = 0; loop.trips < 0 || done < loop.trips; ++done) {
      if (loop.condition >= 0 && addresses_[loop.condition][0] == std::byte{0}) break;
      if (++iterations_ > max_iterations_)
        throw too_many_iterations(meta_.steps[prepared.shape->steps.first + at]->name,
                                  max_iterations_);
      std::memcpy(addresses_[loop.counter], &done, sizeof done);
      run_steps(prepared, at + 1, at + 1 + loop.steps, run);
    }
  }

  /// Sets a symbol of the plan to the value that a step has computed.
  void set_extent(Prepared& prepared, const Extent& extent) {
    if (!extent.symbol) return;
    const std::int64_t value = extents_[meta_.buffers[extent.buffer]->binding];
    plan::check_extent(meta_, *extent.symbol, value, prepared.shape->symbols);
    BoundShape& found = *prepared.found;
    if (found.symbols[*extent.symbol] == value) return;
    found.symbols[*extent.symbol] = value;
    found.expressions = plan::evaluate_expressions(meta_, found.symbols);
    for (const std::size_t step : steps_with(*extent.symbol))
      if (found.steps.contains(step)) prepared.stale[step - found.steps.first] = true;
  }

  /// The steps that depend on a symbol's value.
  const std::vector<std::size_t>& steps_with(std::size_t symbol) {
    const auto [at, is_new] = steps_with_.try_emplace(symbol);
    if (!is_new) return at->second;
    const std::vector<bool> meant = plan::expressions_with(meta_, symbol);
    for (std::size_t i = 0; i < meta_.steps.size(); ++i) {
      bool depends = false;
      plan::for_each_expression(*meta_.steps[i], [&](std::uint32_t expression) {
        depends = depends || meant[expression];
      });
      if (depends) at->second.push_back(i);
    }
    return at->second;
  }

  /// Prepares a stale step again for the current sizes.
  void remake(Prepared& prepared, std::size_t index) {
    const BoundShape& found = *prepared.found;
    const std::size_t step = found.steps.first + index;
    plan::verify_bound(meta_, found.expressions, {step, 1},
                       plan::describe_dimensions(meta_, found.symbols));
    PreparedStep made = maker().make(*meta_.steps[step], found);
    // Steps are movable but not assignable.
    PreparedStep& place = prepared.steps[index];
    std::destroy_at(&place);
    std::construct_at(&place, std::move(made));
    prepared.stale[index] = false;
    reserve_workspace({&prepared.steps[index], 1}, {&prepared.joined[index], 1});
  }

  template <typename Step>
  void run_prepared(Prepared& prepared, Step& step) {
    if constexpr (std::is_same_v<Step, Copy>) {
      by_pieces(step.bytes, [&](std::size_t from, std::size_t count) {
        if (count > 0)
          std::memcpy(addresses_[step.target] + from, addresses_[step.source] + from, count);
      });
    } else if constexpr (std::is_same_v<Step, Extent>) {
      set_extent(prepared, step);
    } else if constexpr (requires { step.execute(addresses_, workspace_addresses_); }) {
      step.execute(addresses_, workspace_addresses_);
    } else if constexpr (!std::is_same_v<Step, While> && !std::is_same_v<Step, If>) {
      step.run(addresses_, workspace_addresses_);  // While and If: run_steps executes their bodies
    }
  }

  /// Runs the steps that are joined from this one on; none where those before it have run it.
  void run_joined(Prepared& prepared, std::size_t index) {
    const std::size_t count = prepared.joined[index];
    if (count == 1) return run_step(prepared, index);
    if (count == 0) return;
    const ProfilerRange shown(prepared.ranges[index]);
    std::array<const TileProgram*, TileProgram::kMostJoined> programs{};
    for (std::size_t k = 0; k < count; ++k)
      programs[k] = &std::get<TileProgram>(prepared.steps[index + k]);
    try {
      TileProgram::run_joined({programs.data(), count}, addresses_, workspace_addresses_);
    } catch (Error& error) {
      error.add_context(step_context(prepared, index));
      throw;
    }
  }

  std::string step_context(const Prepared& prepared, std::size_t index) const {
    return "step '" + meta_.steps[prepared.shape->steps.first + index]->name + "'";
  }

  void run_step(Prepared& prepared, std::size_t index) {
    const ProfilerRange shown(prepared.ranges[index]);
    try {
      if (prepared.found && prepared.stale[index]) remake(prepared, index);
      std::visit([&](auto& step) { run_prepared(prepared, step); }, prepared.steps[index]);
    } catch (Error& error) {
      error.add_context(step_context(prepared, index));
      throw;
    }
  }

  void flush_caches() {
    flush_.reserve(kFlushBytes, "emptying the caches");
    std::memset(flush_.data(), ++flush_value_, kFlushBytes);
  }

  static double microseconds_since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start)
        .count();
  }

  std::shared_ptr<const plan::PlanData> plan_;
  RankPlace ranks_;
  std::shared_ptr<const HostOperators> operators_;  // null: the plan has none
  std::shared_ptr<Allocator> allocator_;            // null: the system's
  const plan::fb::PlanT& meta_;
  int threads_;
  std::int64_t max_iterations_, iterations_ = 0;  // of the current run
  std::shared_ptr<PackedWeights> weights_;
  std::vector<HostBuffer> inputs_, outputs_;
  std::vector<std::byte*> given_inputs_, given_outputs_;  // the user's memory, or null
  std::vector<HostBuffer> states_;
  std::vector<TensorView> output_views_, state_views_;  // of the last run; of the last call
  std::vector<HostBuffer> workspace_;                   // by thread
  HostBuffer arena_, flush_;
  int flush_value_ = 0;
  std::vector<std::byte*> addresses_;  // by plan buffer, for the last run
  std::vector<std::byte*> workspace_addresses_;
  std::vector<std::int64_t> extents_;                           // sizes that the run has computed
  std::map<std::size_t, std::vector<std::size_t>> steps_with_;  // by symbol
  std::map<std::vector<std::int64_t>, Prepared> prepared_;
  std::uint64_t clock_ = 0;
  Prepared* last_ = nullptr;
  std::shared_ptr<const BoundShape> last_shape_, account_;
};

}  // namespace
}  // namespace cpu

std::unique_ptr<Executor> make_cpu_executor(std::shared_ptr<const plan::PlanData> plan,
                                            const SessionOptions& options,
                                            std::shared_ptr<const HostOperators> operators,
                                            RankPlace ranks) {
  return std::make_unique<cpu::CpuExecutor>(std::move(plan), options, std::move(operators),
                                            std::move(ranks));
}

}  // namespace sinter::runtime
