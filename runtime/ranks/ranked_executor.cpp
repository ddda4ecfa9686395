// SPDX-License-Identifier: Apache-2.0
// All ranks of a plan as one executor. Inputs are given to rank 0, whose memory the others read or
// copy; outputs are rank 0's. A state of which ranks have parts is cut and joined here.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include <sinter/threads.h>

#include "runtime/binding.h"
#include "runtime/executor.h"
#include "runtime/format_error.h"
#include "runtime/ranks/rank_devices.h"
#include "runtime/ranks/rank_plan.h"
#include "runtime/ranks/rank_threads.h"

namespace sinter::runtime {
namespace {

/// Shapes that a rank keeps, as sessions do.
constexpr std::size_t kBoundShapes = 64;

/// Bytes of a dense tensor as rows, each of which has `parts` parts of `part` bytes.
struct PartRows {
  std::size_t rows = 1, part = 0;

  /// `shape`: of a part.
  PartRows(const std::vector<std::int64_t>& shape, std::size_t axis, DType type)
      : part(size_of(type)) {
    for (std::size_t d = 0; d < shape.size(); ++d)
      (d < axis ? rows : part) *= static_cast<std::size_t>(shape[d]);
  }
};

/// What a rank runs; owned by its thread, too, while it does.
struct Rank {
  std::shared_ptr<const plan::PlanData> plan;
  std::unique_ptr<Executor> executor;
  std::unique_ptr<BoundShapeCache> shapes;
  std::vector<std::int64_t> symbols;  // of the shape looked for

  /// `shape`, which is rank 0's, for this rank.
  std::shared_ptr<const BoundShape> bound(const std::shared_ptr<const BoundShape>& shape,
                                          std::optional<std::size_t> symbol, std::size_t rank) {
    if (rank == 0 || !symbol) return shape;
    symbols = shape->symbols;
    symbols[*symbol] = static_cast<std::int64_t>(rank);
    return shapes->get(symbols);
  }
};
using Ranks = std::vector<Rank>;

/// Ranks that share the CPU.
class CpuRanks final : public RankDevices {
 public:
  CpuRanks(std::shared_ptr<RankGroup> group, const SessionOptions& options)
      : group_(std::move(group)),
        threads_(std::max(
            1, (options.threads == 0 ? thread_pool_size() : options.threads) / group_->ranks())) {}

  std::unique_ptr<Executor> make(int rank, std::shared_ptr<const plan::PlanData> plan,
                                 const SessionOptions& options,
                                 const std::shared_ptr<const HostOperators>& operators) override {
    SessionOptions own = options;
    own.threads = threads_;
    return make_cpu_executor(std::move(plan), own, operators, {group_, rank});
  }

 private:
  std::shared_ptr<RankGroup> group_;
  int threads_;
};

class RankedExecutor final : public Executor {
 public:
  RankedExecutor(const std::shared_ptr<const plan::PlanData>& plan, const SessionOptions& options,
                 const std::shared_ptr<const HostOperators>& operators,
                 std::unique_ptr<RankDevices> devices)
      : meta_(plan->meta),
        is_on_cpu_(meta_.target == "cpu"),
        gives_host_memory_(is_on_cpu_ || options.output_memory == Memory::kHost),
        symbol_(rank_symbol(meta_)),
        group_(std::make_shared<RankGroup>(static_cast<int>(meta_.ranks),
                                           std::chrono::milliseconds(options.rank_patience_ms))),
        ranks_(std::make_shared<Ranks>()),
        held_inputs_(meta_.inputs.size()),
        state_values_(meta_.states.size()),
        state_views_(meta_.states.size()),
        threads_(group_) {
    if (options.rank_patience_ms < 1)
      throw usage_error("rank_patience_ms is {}, and must be at least 1", options.rank_patience_ms);
    devices_ = std::move(devices);
    if (!devices_)
      devices_ = is_on_cpu_ ? std::make_unique<CpuRanks>(group_, options)
                            : make_rank_gpus(static_cast<int>(meta_.ranks), options);
    for (std::uint32_t r = 0; r < meta_.ranks; ++r) {
      Rank& rank = ranks_->emplace_back();
      const int number = static_cast<int>(r);
      rank.plan = plan_of_rank(plan, number);
      rank.executor = devices_->make(number, rank.plan, options, operators);
      rank.shapes = std::make_unique<BoundShapeCache>(rank.plan, kBoundShapes);
    }
  }

  void prepare(const std::shared_ptr<const BoundShape>& shape) override {
    share_inputs();
    if (is_on_cpu_)
      return on_all([shape, symbol = symbol_](Rank& rank, std::size_t r) {
        rank.executor->prepare(rank.bound(shape, symbol, r));
      });
    // In order: what rank 0 measures the others find, and so choose the same tactics. A GPU that
    // allocates waits for its kernels, which must not wait for another rank.
    for (std::size_t r = 0; r < ranks_->size(); ++r)
      (*ranks_)[r].executor->prepare((*ranks_)[r].bound(shape, symbol_, r));
  }

  void set_input(std::size_t index, const TensorView& view) override {
    require_host(view.memory, "input", meta_.inputs[index]->name);
    if (const auto* state = split_state(index)) return set_state(index, *state, view);
    if (state_of(meta_, *meta_.inputs[index])) {
      for (Rank& rank : *ranks_) rank.executor->set_input(index, view);
      return;
    }
    first().set_input(index, view);
    held_inputs_[index] = view.byte_count();
  }
  void use_input(std::size_t index, const TensorView& view) override {
    require_host(view.memory, "input", meta_.inputs[index]->name);
    held_inputs_[index].reset();
    for (Rank& rank : *ranks_) rank.executor->use_input(index, view);
  }
  std::byte* stage_input(std::size_t index, std::size_t bytes) override {
    held_inputs_[index] = bytes;
    return first().stage_input(index, bytes);
  }
  void await_event(void* event) override { first().await_event(event); }
  void set_output(std::size_t index, const MutableTensorView& view) override {
    first().set_output(index, view);
  }

  void run(const std::shared_ptr<const BoundShape>& shape, void* stream) override {
    if (stream != nullptr && !is_on_cpu_)
      throw usage_error(
          "run_async on a stream: a plan of several ranks runs on streams of its own; leave the "
          "stream out");
    share_inputs();
    on_all([shape, symbol = symbol_](Rank& rank, std::size_t r) {
      rank.executor->run(rank.bound(shape, symbol, r), nullptr);
      rank.executor->await();
    });
  }
  void await() override {}

  const TensorView& output(std::size_t index) const override {
    return ranks_->front().executor->output(index);
  }

  const TensorView& state(std::size_t index, const std::vector<std::int64_t>& shape) override {
    const plan::fb::StateT& state = *meta_.states[index];
    if (state.axis < 0) return first().state(index, shape);
    if (!gives_host_memory_)
      throw usage_error(
          "state '{}' is split among GPUs: it reaches the host alone "
          "(SessionOptions::output_memory)",
          meta_.inputs[state.input]->name);
    const auto axis = static_cast<std::size_t>(state.axis);
    TensorView& view = state_views_[index];
    view.dtype = static_cast<DType>(meta_.inputs[state.input]->dtype);
    view.shape = shape;
    const PartRows of(shape, axis, view.dtype);
    view.shape[axis] *= state.parts;
    std::vector<std::byte>& all = state_values_[index];
    all.resize(of.rows * of.part * state.parts);
    for (std::size_t p = 0; p < state.parts; ++p) {
      const TensorView part = (*ranks_)[rank_of_part(state, p)].executor->state(index, shape);
      const auto* from = static_cast<const std::byte*>(part.data);
      for (std::size_t i = 0; i < of.rows && of.part > 0; ++i)
        std::memcpy(all.data() + (i * state.parts + p) * of.part, from + i * of.part, of.part);
    }
    view.data = all.data();
    return view;
  }

  void copy_state_rows(std::size_t index, const std::vector<std::int64_t>& shape, std::int64_t from,
                       std::int64_t to, std::int64_t count) override {
    for (Rank& rank : *ranks_) rank.executor->copy_state_rows(index, shape, from, to, count);
  }
  void reset_states() override {
    for (Rank& rank : *ranks_) rank.executor->reset_states();
  }
  void set_weights(const std::shared_ptr<const plan::PlanData>& plan) override {
    for (std::size_t r = 0; r < ranks_->size(); ++r)
      (*ranks_)[r].executor->set_weights(plan_of_rank(plan, static_cast<int>(r)));
  }

  MemoryAccount memory() const override {
    MemoryAccount sum;
    // On the CPU the file's weights are mapped once; each GPU has a rank's.
    const std::uint64_t shared = is_on_cpu_ ? (*ranks_)[0].plan->weights.size() : 0;
    sum.weights = shared;
    for (const Rank& rank : *ranks_) {
      const MemoryAccount one = rank.executor->memory();
      sum.weights += one.weights - shared;
      sum.arena += one.arena;
      sum.arena_without_reuse += one.arena_without_reuse;
      sum.workspace += one.workspace;
      sum.io += one.io;
    }
    return sum;
  }
  std::size_t launches() const override { return ranks_->front().executor->launches(); }

  double time_compute(bool cold) override {
    return of_first<double>([cold](Executor& executor) { return executor.time_compute(cold); });
  }
  std::vector<StepTime> profile() override {
    return of_first<std::vector<StepTime>>([](Executor& executor) { return executor.profile(); });
  }
  MachineRates measure_rates() override { return first().measure_rates(); }

 private:
  Executor& first() { return *ranks_->front().executor; }

  /// The state that input `index` belongs to, if ranks have parts of it.
  const plan::fb::StateT* split_state(std::size_t index) const {
    const auto state = state_of(meta_, *meta_.inputs[index]);
    return state && meta_.states[*state]->axis >= 0 ? meta_.states[*state].get() : nullptr;
  }
  /// The first of the ranks that have part `part`.
  std::size_t rank_of_part(const plan::fb::StateT& state, std::size_t part) const {
    return part * ranks_->size() / state.parts;
  }

  void set_state(std::size_t index, const plan::fb::StateT& state, const TensorView& whole) {
    const auto axis = static_cast<std::size_t>(state.axis);
    TensorView part = whole;
    part.shape[axis] /= state.parts;
    const PartRows of(part.shape, axis, whole.dtype);
    std::vector<std::byte> bytes(of.rows * of.part);
    part.data = bytes.data();
    for (std::size_t r = 0; r < ranks_->size(); ++r) {
      const std::size_t p = r * state.parts / ranks_->size();
      const auto* from = static_cast<const std::byte*>(whole.data);
      for (std::size_t i = 0; i < of.rows && of.part > 0; ++i)
        std::memcpy(bytes.data() + i * of.part, from + (i * state.parts + p) * of.part, of.part);
      (*ranks_)[r].executor->set_input(index, part);
    }
  }

  /// Gives the others what rank 0 holds.
  void share_inputs() {
    for (std::size_t i = 0; i < held_inputs_.size(); ++i) {
      if (!held_inputs_[i]) continue;
      const TensorView view{DType::kUInt8,
                            {static_cast<std::int64_t>(*held_inputs_[i])},
                            first().stage_input(i, *held_inputs_[i])};
      for (std::size_t r = 1; r < ranks_->size(); ++r) (*ranks_)[r].executor->use_input(i, view);
    }
  }

  template <typename Work>
  void on_all(Work work) {
    devices_->begin();
    threads_.run([ranks = ranks_, devices = devices_, work = std::move(work)](int r) {
      const auto rank = static_cast<std::size_t>(r);
      try {
        work((*ranks)[rank], rank);
        devices->check(r);
      } catch (...) {
        devices->give_up();
        throw;
      }
    });
  }
  /// Runs `measure`, whose number of runs is fixed, on all ranks; the result is rank 0's.
  template <typename Result, typename Measure>
  Result of_first(Measure measure) {
    const auto result = std::make_shared<Result>();
    on_all([result, measure](Rank& rank, std::size_t r) {
      Result own = measure(*rank.executor);
      if (r == 0) *result = std::move(own);
    });
    return std::move(*result);
  }

  void require_host(Memory memory, const char* what, const std::string& name) const {
    if (memory != Memory::kHost)
      throw usage_error("{} '{}' is in a GPU's memory; a plan of several ranks takes host memory",
                        what, name);
  }

  const plan::fb::PlanT& meta_;
  bool is_on_cpu_, gives_host_memory_;
  std::optional<std::size_t> symbol_;
  std::shared_ptr<RankGroup> group_;
  std::shared_ptr<RankDevices> devices_;
  std::shared_ptr<Ranks> ranks_;
  std::vector<std::optional<std::size_t>> held_inputs_;  // bytes that rank 0 holds of each input
  std::vector<std::vector<std::byte>> state_values_;     // joined, of the last call
  std::vector<TensorView> state_views_;
  RankThreads threads_;
};

}  // namespace

std::unique_ptr<Executor> make_ranked_executor(
    const std::shared_ptr<const plan::PlanData>& plan, const SessionOptions& options,
    const std::shared_ptr<const HostOperators>& operators) {
  return make_ranked_executor(plan, options, operators, nullptr);
}

std::unique_ptr<Executor> make_ranked_executor(
    const std::shared_ptr<const plan::PlanData>& plan, const SessionOptions& options,
    const std::shared_ptr<const HostOperators>& operators, std::unique_ptr<RankDevices> devices) {
  return std::make_unique<RankedExecutor>(plan, options, operators, std::move(devices));
}

}  // namespace sinter::runtime
