// SPDX-License-Identifier: Apache-2.0
// The objects behind the C ABI's handles.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include <sinter/devices.h>
#include <sinter/engine.h>
#include <sinter/plan.h>
#include <sinter/session.h>
#include <sinter/sinter_c.h>

#include "runtime/c/c_support.h"
#include "runtime/format_error.h"
#include "runtime/session_access.h"

namespace sinter::c {

struct PlanObject {
  explicit PlanObject(Plan plan_in);

  Plan plan;
  // The same as C structures; pointers refer to the plan.
  std::vector<std::vector<sinter_dim>> inputs, outputs, entries;
  std::vector<const char*> architectures;
  std::vector<sinter_option> options;
  std::vector<sinter_measured_error> measured;
  std::vector<const char*> custom_code;
};

struct SessionObject {
  explicit SessionObject(Session session_in)
      : session(std::move(session_in)),
        inputs(session.plan().inputs().size()),
        outputs(session.plan().outputs().size()) {}

  Session session;
  // Scratch views, kept between calls: assigning a shape allocates only the first time.
  std::vector<TensorView> inputs;
  std::vector<MutableTensorView> outputs;
  std::atomic<bool> busy{false};
};

/// A number for a handle, unique in the process and never reused.
std::uintptr_t next_handle();

/// The live objects of one handle type. A handle is a number, not an address: a freed handle is
/// detected, and an object in use by a call outlives its handle.
template <typename Handle, typename Object>
class Handles {
 public:
  explicit Handles(const char* what) : what_(what) {}

  Handle* add(std::shared_ptr<Object> object) {
    const std::uintptr_t number = next_handle();
    const std::unique_lock lock(mutex_);
    objects_.emplace(number, std::move(object));
    return reinterpret_cast<Handle*>(number);
  }

  /// Null for an invalid handle.
  std::shared_ptr<Object> find(const Handle* handle) const {
    const std::shared_lock lock(mutex_);
    const auto found = objects_.find(reinterpret_cast<std::uintptr_t>(handle));
    return found == objects_.end() ? nullptr : found->second;
  }

  /// Throws Error(kUsage) for an invalid handle.
  std::shared_ptr<Object> at(const Handle* handle) const {
    std::shared_ptr<Object> object = find(handle);
    if (!object)
      throw usage_error(handle ? fmt::format("this {} was freed, or never was one", what_)
                               : fmt::format("{} is NULL", what_));
    return object;
  }

  void remove(const Handle* handle) {
    std::shared_ptr<Object> last;  // destroyed after the lock is released
    const std::unique_lock lock(mutex_);
    const auto found = objects_.find(reinterpret_cast<std::uintptr_t>(handle));
    if (found == objects_.end()) return;
    last = std::move(found->second);
    objects_.erase(found);
  }

 private:
  const char* what_;
  mutable std::shared_mutex mutex_;
  std::unordered_map<std::uintptr_t, std::shared_ptr<Object>> objects_;
};

Handles<sinter_plan, PlanObject>& plans();
Handles<sinter_session, SessionObject>& sessions();
Handles<sinter_device_buffer, DeviceBuffer>& device_buffers();
Handles<sinter_engine, Engine>& engines();

/// `options`, or the defaults for NULL.
SessionOptions session_options_of(const sinter_session_options* options);

/// Calls `body` with the session; fails if another thread is using it.
template <typename Body>
sinter_status with_session(sinter_session* session, const Body& body) {
  return guarded([&] {
    const auto object = sessions().at(session);
    std::atomic<bool>& busy = object->busy;
    if (busy.exchange(true, std::memory_order_acquire)) SessionAccess::refuse_second_thread();
    const std::unique_ptr<std::atomic<bool>, void (*)(std::atomic<bool>*)> leave(
        &busy, [](std::atomic<bool>* flag) { flag->store(false, std::memory_order_release); });
    body(*object);
  });
}

}  // namespace sinter::c
