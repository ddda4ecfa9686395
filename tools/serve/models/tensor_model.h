// SPDX-License-Identifier: Apache-2.0
// A plan that takes tensors and gives tensors, for many requests: they are gathered into batches.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <sinter/engine.h>
#include <sinter/session.h>

namespace sinter::tools {

/// A tensor that owns its elements, in host memory.
struct OwnedTensor {
  DType dtype = DType::kFloat32;
  std::vector<std::int64_t> shape;
  std::vector<std::byte> data;

  TensorView view() const { return {dtype, shape, data.data()}; }
};

struct TensorModelOptions {
  int sessions = 1;            // that run at once, a thread each
  std::int64_t waiting = 256;  // requests that wait; more are refused
  /// The most rows of a run that joins requests, which may differ along the first dimension alone.
  /// 1: each by itself, as always where inputs and outputs do not share a symbolic first dimension.
  std::int64_t batch_rows = 1;
  std::chrono::microseconds batch_delay{0};  // how long a request waits for others
  /// Requests may differ along the second dimension, too: the shorter ones are padded with zeros,
  /// and outputs that have this dimension are cut. For models that know by a mask what counts.
  bool pads = false;
  /// With `pads`: rows and columns of a run are those of a ladder, so that few shapes are captured
  /// as graphs: powers of two, and one step between them for columns from 16 on.
  bool has_ladder = false;
};

struct TensorModelStats {
  std::uint64_t requests = 0, failed = 0;  // failed: of those that were taken
  std::uint64_t runs = 0, rows = 0;        // rows: of all runs; 1 each where nothing is gathered
  std::int64_t waiting = 0, running = 0;   // requests
  DurationHistogram wait, run;             // for the first step; inputs, run and outputs
};

class TensorModel {
 public:
  /// Throws Error(kUnsupported) for a plan with states: they belong to one text.
  TensorModel(const Plan& plan, const SessionOptions& session, const TensorModelOptions& options);
  /// No request may wait.
  ~TensorModel();

  const Plan& plan() const { return plan_; }
  /// Rows that run at once at most; 1: each request by itself.
  std::int64_t batch_rows() const { return is_batched_ ? options_.batch_rows : 1; }
  /// Whether rows of different lengths may run at once.
  bool pads() const { return is_batched_ && options_.pads; }
  /// Whether a batch of `rows` rows with `elements` columns in all wastes too much when it is
  /// padded to `longest`.
  static bool wastes(std::int64_t rows, std::int64_t longest, std::int64_t elements) {
    constexpr std::int64_t kSmall = 1024;  // as fast as less
    return rows * longest > std::max(kSmall, elements + elements / 2);
  }
  /// Outputs by the plan's order. Throws QueueFullError, Error(kUsage) for an input that is
  /// missing, unknown or does not fit, and as Session::run does: a request's error is its own,
  /// whatever it runs with. From any thread.
  SINTER_API std::vector<OwnedTensor> infer(const std::map<std::string, OwnedTensor>& inputs);
  TensorModelStats stats() const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Request {
    const std::map<std::string, OwnedTensor>& inputs;
    std::string kind;                    // requests of one kind may run at once
    std::int64_t rows = 1, columns = 0;  // columns: 0 where nothing is padded
    Clock::time_point arrival;
    std::vector<OwnedTensor> outputs;
    std::exception_ptr error;
    bool is_done = false;
  };

  void find_rows();
  bool has_columns(const BindingInfo& binding) const;
  /// Of all requests, as a run takes them: with what is padded.
  struct Extent {
    std::int64_t rows = 0, columns = 0;
  };
  Extent extent_of(const std::vector<Request*>& batch) const;
  static OwnedTensor joined(const std::string& input, const std::vector<Request*>& batch,
                            const Extent& extent);
  void describe(Request& request) const;
  void work(Session& session, const std::stop_token& stop);
  std::vector<Request*> gather(std::unique_lock<std::mutex>& lock, const std::stop_token& stop);
  void take_alike(std::vector<Request*>& batch, std::int64_t& rows);
  void run(Session& session, const std::vector<Request*>& batch);
  void run_together(Session& session, const std::vector<Request*>& batch);

  Plan plan_;
  TensorModelOptions options_;
  bool is_batched_ = false;
  std::int64_t most_columns_ = INT64_MAX;  // of what is padded
  mutable std::mutex mutex_;
  std::condition_variable_any arrived_;
  std::condition_variable done_;
  std::deque<Request*> waiting_;
  TensorModelStats stats_;
  std::deque<Session> sessions_;
  std::vector<std::jthread> workers_;  // last: they end first
};

}  // namespace sinter::tools
