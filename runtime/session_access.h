// SPDX-License-Identifier: Apache-2.0
// Internals of a Session, for functions that are not its members, and for tests.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include <sinter/session.h>

#include "runtime/binding.h"
#include "runtime/executor.h"
#include "runtime/plan_access.h"

namespace sinter {

struct Session::Impl {
  Impl(Plan plan_in, SessionOptions options_in, std::unique_ptr<runtime::Executor> executor_in);

  const plan::fb::PlanT& meta() const { return PlanAccess::data(plan)->meta; }
  bool is_on_cpu() const { return meta().target == "cpu"; }
  /// The shape that the inputs bind. Throws Error(kUsage) if one is missing.
  const std::shared_ptr<const runtime::BoundShape>& bind();
  void set_shape(std::size_t input, const std::vector<std::int64_t>& shape);
  void check_outputs(const runtime::BoundShape& shape) const;
  /// Refuses to reallocate a state that holds a value.
  void check_states(const runtime::BoundShape& shape) const;
  /// Throws Error(kUsage) if `what` would change memory that a to_dlpack tensor still borrows.
  void check_loans(const char* what) const;
  /// Throws Error(kUsage) before the first run.
  const runtime::BoundShape& last_bound(const char* what) const;

  /// Passes a checked input to the executor.
  void put_input(std::size_t index, const TensorView& view);
  /// Reads an input whose value is a symbol; ignores other inputs. Throws Error(kUsage) for one in
  /// device memory.
  void note_value(std::size_t index, const TensorView& view, bool stays);
  void start(void* stream);
  void await();
  const TensorView& output(std::size_t index);

  Plan plan;
  SessionOptions options;
  std::unique_ptr<runtime::Executor> executor;
  runtime::BoundShapeCache shapes;
  plan::InputShapes inputs;
  /// Inputs whose values the plan needs: the value at set_input, or the memory of use_input.
  plan::InputValues input_values;
  std::vector<std::optional<TensorView>> used_values;
  struct GivenOutput {
    bool is_given = false;  // the caller's memory
    std::vector<std::int64_t> shape;
  };
  std::vector<GivenOutput> outputs;
  bool finds_sizes = false;                            // a run determines sizes of outputs
  std::shared_ptr<const runtime::BoundShape> current;  // bound shape of `inputs`; null: they have
                                                       // changed
  std::shared_ptr<const runtime::BoundShape> bound;    // bound shape of the last run or warm-up
  bool running = false;
  bool has_run = false;
  std::atomic<bool> busy{false};
  std::atomic<int> loans{0};  // unreleased tensors of to_dlpack

  /// Marks the session as in use; throws if another thread is using it.
  class Use {
   public:
    explicit Use(Impl* impl);
    ~Use() { impl_->busy.store(false, std::memory_order_release); }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    Impl* impl_;
  };
};

struct SessionAccess {
  using Impl = Session::Impl;

  static const std::shared_ptr<Impl>& impl(const Session& session) { return session.impl_; }
  /// Throws Error(kUsage).
  [[noreturn]] static void refuse_second_thread();
  /// A session over the caller's executor: tests pass one over a fake driver.
  static Session make(Plan plan, SessionOptions options,
                      std::unique_ptr<runtime::Executor> executor);
};

/// A loan of an output of a session's last run: until it ends, the session's memory stays alive and
/// unchanged.
class SessionLoan {
 public:
  /// Memory that the caller gave for the output is the caller's responsibility and not counted.
  SessionLoan(std::shared_ptr<SessionAccess::Impl> session, std::size_t output)
      : session_(std::move(session)), is_counted_(!session_->outputs[output].is_given) {
    if (is_counted_) session_->loans.fetch_add(1, std::memory_order_relaxed);
  }
  ~SessionLoan() {
    if (is_counted_) session_->loans.fetch_sub(1, std::memory_order_release);
  }
  SessionLoan(const SessionLoan&) = delete;
  SessionLoan& operator=(const SessionLoan&) = delete;

 private:
  std::shared_ptr<SessionAccess::Impl> session_;
  bool is_counted_;
};

}  // namespace sinter
