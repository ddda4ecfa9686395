// A plan that takes tensors and gives tensors, for many requests: each has a session for itself.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
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

struct TensorModelStats {
  std::uint64_t requests = 0, failed = 0;  // failed: of those that got a session
  std::int64_t waiting = 0, running = 0;
  DurationHistogram run;  // setting inputs, running, copying outputs
};

class TensorModel {
 public:
  /// `sessions` run at once, `waiting` requests wait for one. Throws Error(kUnsupported) for a plan
  /// with states: they belong to one text.
  TensorModel(const Plan& plan, const SessionOptions& options, int sessions, std::int64_t waiting);

  const Plan& plan() const { return plan_; }
  /// Outputs by the plan's order. Throws QueueFullError, Error(kUsage) for an input that is
  /// missing, unknown or does not fit, and as Session::run does. From any thread.
  std::vector<OwnedTensor> infer(const std::map<std::string, OwnedTensor>& inputs);
  TensorModelStats stats() const;

 private:
  std::unique_ptr<Session> take();
  void give_back(std::unique_ptr<Session> session);

  Plan plan_;
  std::int64_t most_waiting_;
  mutable std::mutex mutex_;
  std::condition_variable freed_;
  std::vector<std::unique_ptr<Session>> free_;
  TensorModelStats stats_;
};

}  // namespace sinter::tools
