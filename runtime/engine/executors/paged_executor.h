// SPDX-License-Identifier: Apache-2.0
// A plan for many sequences (`compile --serve`) as an executor of the engine.
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
  /// Bytes of the caches; 0: on a GPU most of what is left, on the CPU enough for all sequences, a
  /// GiB at most.
  std::uint64_t cache_bytes = 0;
  int max_sequences = 0, max_step_tokens = 0, max_positions = 0;  // 0: as many as the plan takes
  int block_count = 0;  // blocks of the caches, whatever their bytes; 0: as cache_bytes allows
  /// Tokens of the steps that are prepared ahead, for one text: such steps are not padded. Empty:
  /// all sizes of the ladder.
  std::vector<int> ahead;
  /// A plan whose weights, and as many blocks, share the memory (a draft model's).
  const Plan* beside = nullptr;
};

/// One session, whose caches are states that all sequences share. A step is padded to sizes of a
/// ladder, which are captured ahead. One that is started while another runs is prepared, and runs
/// as soon as the tokens of that one are known. The plan draws the tokens and tells log
/// probabilities; tokens with drafts under a constraint or a penalty, with more than
/// SamplingTables::kBiases biases, or with more log probabilities than the plan tells are drawn on
/// the host, from logits that are copied there.
class PagedExecutor : public Executor {
 public:
  /// Whether `plan` has the bindings of such a plan.
  static bool takes(const Plan& plan);
  /// Of such a plan; throws Error(kUsage) for others, which are for sessions that a program drives.
  static plan::ServingPlan sizes_of(const Plan& plan);

  /// Throws Error(kUsage) if it has not, or the caches have room for less than two sequences'
  /// blocks; else as Session does.
  PagedExecutor(const Plan& plan, const PagedExecutorOptions& options);

  const ExecutorLimits& limits() const override { return limits_; }
  void start(const StepPlan& plan) override;
  StepResult finish() override;
  void recover() override;

  std::uint64_t cache_bytes() const { return cache_bytes_; }
  const plan::ServingPlan& plan() const { return plan_; }
  /// Of the inputs of a step of one sequence.
  std::map<std::string, std::vector<std::int64_t>> shapes_of_one(int tokens) const {
    return shapes(padded(tokens, 1, 1));
  }
  /// Not while a step runs.
  Session& session() { return session_; }

 private:
  using Clock = std::chrono::steady_clock;

  struct Wanted {
    int slot = 0, row = 0;  // row: of the logits
    bool by_plan = false;   // its tokens are drawn by the plan
    std::vector<TokenId> drafts;
  };

  void read_limits(const PagedExecutorOptions& options);
  void place_rows();
  void make_crossed();
  void make_caches(const PagedExecutorOptions& options);
  void make_tables();
  void warm_up(const std::vector<int>& ahead);
  /// Sizes to which a step is padded.
  StepSizes padded(int tokens, int sequences, int samples) const;
  std::map<std::string, std::vector<std::int64_t>> shapes(const StepSizes& sizes) const;
  /// What does not depend on the step in front.
  void prepare(const StepPlan& plan);
  /// Runs what prepare() was given; the step in front has ended, and its draws are known. Returns
  /// when it begins.
  Clock::time_point launch();
  void copy_blocks();
  /// Writes an input where the next run reads it: no run is in flight, and checks of the user's
  /// inputs would take longer than a short step.
  template <typename T>
  void stage(std::size_t input, const std::vector<T>& values,
             std::initializer_list<std::int64_t> shape);
  void set_shape(std::size_t input, std::initializer_list<std::int64_t> shape);
  void set_inputs();
  void set_block_tables();
  void set_crossed();
  void place_outputs(const StepSizes& sizes);
  /// Of all sequences, in the session's own memory, where they stay.
  std::span<BlockId> block_table_rows();
  SlotSampler& sampler_of(int slot) { return *samplers_[static_cast<std::size_t>(slot)]; }
  // How tokens are drawn (draw_step.cpp).
  void begin_slot(const SlotStart& start);
  /// What constraints allow, and who draws: in front of a run.
  void prepare_samplers();
  void fill_sampling();
  /// Rows of logits [first, first + count) on the host.
  std::span<const float> logits(int first, int count);
  /// What the step tells of its rows, if a sample wants it.
  struct ToldRows {
    const TokenId* likeliest = nullptr;
    const float* logprobs = nullptr;
  };
  ToldRows told_rows();
  std::vector<TokenLogprobs> told(const ToldRows& rows, const Wanted& wanted);
  /// Of the run that has ended.
  StepResult draw();

  plan::ServingPlan plan_;
  ExecutorLimits limits_;
  Session session_;
  bool on_device_ = false;
  int device_ = 0;
  std::map<std::string, std::vector<std::int64_t>> caches_;
  DType logits_type_ = DType::kFloat32;
  std::optional<RowOutput> logits_, likeliest_, logprobs_;
  std::uint64_t cache_bytes_ = 0;
  std::vector<std::optional<SlotSampler>> samplers_;  // by slot
  /// A step, its inputs, and the draws from its logits.
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
  std::vector<std::int32_t> cross_limits_, cross_tables_;  // of a step
  std::vector<double> reals_of_rows_;
  std::vector<std::int64_t> integers_of_rows_;
  std::vector<std::int32_t> wanted_of_rows_;
  std::vector<float> widened_;
};

/// Throws Error(kDevice) where GPU `device` takes no more work: behind an address that it does not
/// have, for example, nothing of the process runs there any more.
void check_device(int device);

}  // namespace sinter::engine
