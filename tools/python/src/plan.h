// SPDX-License-Identifier: Apache-2.0
// A plan and the sessions that run it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <nanobind/nanobind.h>
#include <sinter/sinter.h>

#include "tools/python/src/caller.h"

namespace sinter::python {

/// Concurrent sessions of one plan, created on demand and reused. Callers beyond `limit` wait. Used
/// without the GIL.
class SessionPool {
 public:
  SessionPool(Plan plan, SessionOptions options, std::size_t limit)
      : plan_(std::move(plan)), options_(std::move(options)), limit_(limit) {}

  struct Slot {
    Session session;
    void* stream = nullptr;  // stream of its last run
    StreamEvent copied;      // after the copies of its last outputs; needs the GIL
  };
  /// Takes a slot whose last run was on `stream`, else any free one, else a new one.
  std::unique_ptr<Slot> acquire(void* stream);
  void give_back(std::unique_ptr<Slot> slot);
  /// Call instead of give_back for a session that will not be reused.
  void drop();

  /// Whether slots change streams. If not, no events are needed.
  std::atomic<bool> streams_vary = false;

 private:
  const Plan plan_;
  const SessionOptions options_;
  const std::size_t limit_;
  std::mutex mutex_;
  std::condition_variable returned_;
  std::vector<std::unique_ptr<Slot>> free_;
  std::size_t made_ = 0;
};

struct RunOptions {
  int device = 0;
  int threads = 0;
  bool copy = false;     // reads a file into memory instead of mapping it
  int max_sessions = 0;  // limit of concurrent calls; 0: see PlanObject::start
  std::int64_t max_iterations = SessionOptions().max_iterations;
  bool allow_custom_code = true;
  std::string require_signature;
  std::vector<OperatorLibrary> operator_libraries;
  std::uint64_t weight_budget = 0;
};

/// Options of a session whose outputs stay on the device or are copied to the host.
SessionOptions session_options(const RunOptions& options, bool device_outputs);

/// pysinter.Plan. The plan's bytes are a file's, or owned by this object.
class PlanObject {
 public:
  PlanObject(const std::string& path, const RunOptions& options);
  /// `bytes`: any buffer. Used in place if aligned, else copied.
  PlanObject(nb::object bytes, const RunOptions& options);

  nb::object call(nb::args positions, nb::kwargs names);
  const Plan& plan() const { return caller_->plan(); }
  const RunOptions& options() const { return options_; }
  const std::shared_ptr<Caller>& caller() const { return caller_; }
  /// The bytes that it was loaded from; empty for a file.
  std::span<const std::byte> bytes() const { return bytes_; }
  /// Throws Error(kUsage) in a child of fork() that inherited GPU resources.
  void check_process() const;

 private:
  void start();
  SessionPool& pool(bool on_device);

  RunOptions options_;
  std::span<const std::byte> bytes_;
  std::shared_ptr<Caller> caller_;
  std::unique_ptr<SessionPool> pools_[2];  // with outputs on the host; on the device
  unsigned process_ = 0;                   // process to which the pools belong
};

/// Number of fork() generations: incremented in each child.
unsigned process_generation();

void bind_plan(nb::module_& module);
void bind_session(nb::module_& module);
void bind_engine(nb::module_& module);
void bind_compiler(nb::module_& module);
void bind_errors(nb::module_& module);
void bind_runtime(nb::module_& module);

}  // namespace sinter::python
