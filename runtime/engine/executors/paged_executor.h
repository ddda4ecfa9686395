// SPDX-License-Identifier: Apache-2.0
// An executor that runs a plan of `compile --serve`.
#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <sinter/devices.h>
#include <sinter/session.h>

#include "runtime/engine/executor.h"
#include "runtime/engine/executors/block_table_rows.h"
#include "runtime/engine/executors/cross_cache.h"
#include "runtime/engine/executors/row_output.h"
#include "runtime/engine/executors/sampling_tables.h"
#include "runtime/engine/executors/step_inputs.h"
#include "runtime/engine/sampler.h"
#include "runtime/plan/serving.h"

namespace sinter::engine {

struct PagedExecutorOptions {
  SessionOptions session;
  /// Bytes of the caches. 0: on a GPU most of the free memory; on the CPU enough for all sequences,
  /// at most 1 GiB.
  std::uint64_t cache_bytes = 0;
  int max_sequences = 0, max_step_tokens = 0, max_positions = 0;  // 0: the plan's maximum
  std::uint64_t state_bytes = 0;                                  // as EngineOptions::state_bytes
  int block_count = 0;  // cache blocks; overrides cache_bytes; 0: from cache_bytes
  /// Token counts of steps with one sequence to prepare ahead, without padding. Empty: all sizes of
  /// the ladder.
  std::vector<int> ahead;
  /// A plan (the draft model's) whose weights and equal number of blocks share the memory.
  const Plan* beside = nullptr;
};

/// Runs steps in one session, whose caches are states shared by all sequences. Steps are padded to
/// a ladder of sizes, captured ahead. A step started during another is prepared and runs once that
/// one's tokens are known. The plan draws tokens and computes log probabilities. The host draws,
/// from copied logits, in three cases: drafts under a constraint or a penalty; more than
/// SamplingTables::kBiases biases; more log probabilities than the plan computes.
class PagedExecutor : public Executor {
 public:
  /// Whether `plan` has the bindings of a `--serve` plan.
  static bool takes(const Plan& plan);
  /// The sizes of a `--serve` plan. Throws Error(kUsage) for other plans, which need a program to
  /// drive their session.
  static plan::ServingPlan sizes_of(const Plan& plan);

  /// Throws Error(kUsage) if takes() is false or the caches hold fewer than two blocks; otherwise
  /// as Session does.
  PagedExecutor(const Plan& plan, const PagedExecutorOptions& options);

  const ExecutorLimits& limits() const override { return limits_; }
  void start(const StepPlan& plan) override;
  StepResult finish() override;
  void recover() override;

  std::uint64_t cache_bytes() const { return cache_bytes_; }
  const plan::ServingPlan& plan() const { return plan_; }
  /// Input shapes of a step of one sequence.
  std::map<std::string, std::vector<std::int64_t>> shapes_of_one(int tokens) const {
    return shapes(padded(tokens, 1, 1, 1));
  }
  /// Not during a step.
  Session& session() { return session_; }

 private:
  using Clock = std::chrono::steady_clock;

  struct Wanted {
    int slot = 0, row = 0;  // row: first row of its logits
    bool by_plan = false;   // the plan draws its tokens
    std::vector<TokenId> drafts;
  };

  /// Of a vector in place of a token; 0: the plan takes none.
  std::size_t given_bytes() const {
    return plan_.given ? static_cast<std::size_t>(plan_.given->width) * size_of(plan_.given->type)
                       : 0;
  }
  void read_limits(const PagedExecutorOptions& options);
  void place_rows();
  void make_crossed();
  /// Gives the states their slots, of which `bytes` are to be had (0: unknown), and returns what
  /// they take.
  std::uint64_t make_states(const PagedExecutorOptions& options, std::uint64_t bytes);
  void make_caches(const PagedExecutorOptions& options);
  void make_tables();
  void warm_up(const std::vector<int>& ahead);
  /// The sizes to which a step is padded.
  StepSizes padded(int tokens, int sequences, int samples, int stores) const;
  std::map<std::string, std::vector<std::int64_t>> shapes(const StepSizes& sizes) const;
  /// Prepares what does not depend on the previous step.
  void prepare(const StepPlan& plan);
  /// Runs the prepared step and returns its start time. The previous step must have ended with its
  /// draws known.
  Clock::time_point launch();
  void copy_blocks();
  void copy_states();
  /// Writes an input directly to the next run's memory. No run is in flight. Skips the checks of
  /// user inputs, which would take longer than a short step.
  template <typename T>
  void stage(std::size_t input, const std::vector<T>& values,
             std::initializer_list<std::int64_t> shape);
  void set_shape(std::size_t input, std::initializer_list<std::int64_t> shape);
  void set_inputs();
  void set_block_tables();
  void set_crossed();
  void place_outputs(const StepSizes& sizes);
  /// Block tables of all sequences, in the session's own memory, where they persist.
  std::span<BlockId> block_table_rows();
  SlotSampler& sampler_of(int slot) { return *samplers_[static_cast<std::size_t>(slot)]; }
  // Drawing tokens (draw_step.cpp).
  void begin_slot(const SlotStart& start);
  /// Before a run: computes the masks of constraints and decides which samples the plan draws.
  void prepare_samplers();
  void fill_sampling();
  /// Rows of logits [first, first + count) on the host.
  std::span<const float> logits(int first, int count);
  /// The plan's tokens and log probabilities by row, copied if a sample needs them.
  struct ToldRows {
    const TokenId* likeliest = nullptr;
    const float* logprobs = nullptr;
  };
  ToldRows told_rows();
  std::vector<TokenLogprobs> told(const ToldRows& rows, const Wanted& wanted);
  /// Draws for the finished run.
  StepResult draw();

  plan::ServingPlan plan_;
  ExecutorLimits limits_;
  Session session_;
  bool on_device_ = false;
  int device_ = 0;
  std::map<std::string, std::vector<std::int64_t>> caches_, pools_;  // shapes, by name
  DType logits_type_ = DType::kFloat32;
  std::optional<RowOutput> logits_, likeliest_, logprobs_;
  std::uint64_t cache_bytes_ = 0;
  std::vector<std::optional<SlotSampler>> samplers_;  // by slot
  /// A step with its inputs and its samples.
  struct PreparedStep {
    StepPlan plan;
    StepInputs inputs;
    std::vector<Wanted> wanted;
  };
  PreparedStep next_, running_;
  bool has_next_ = false, runs_ = false;
  std::exception_ptr launch_failure_;  // of the step that would run now
  std::optional<BlockTableRows> block_tables_;
  std::optional<SamplingTables> tables_of_tokens_;
  std::optional<CrossCache> crossed_;
  std::vector<std::int32_t> cross_limits_, cross_tables_;  // of the current step
  std::vector<double> reals_of_rows_;
  std::vector<std::int64_t> integers_of_rows_;
  std::vector<std::int32_t> wanted_of_rows_;
  std::vector<float> widened_;
};

/// Throws Error(kDevice) if GPU `device` accepts no more work. For example, after an access to an
/// invalid address, nothing of the process runs there any more.
void check_device(int device);

}  // namespace sinter::engine
