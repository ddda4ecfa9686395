// SPDX-License-Identifier: Apache-2.0
// GPUs and their primary contexts.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "graphs/driver.h"

namespace sinter::graphs {

struct DeviceProperties {
  int index = 0;
  std::string name;
  int major = 0, minor = 0;  // compute capability
  int multiprocessors = 0;
  std::uint64_t memory_bytes = 0;
  std::uint64_t l2_bytes = 0;
  std::uint64_t max_shared_bytes = 0;  // per block, with opt-in
  std::uint64_t max_threads_per_block = 0;
  std::uint64_t threads_per_multiprocessor = 0;  // resident at once
  double clock_hz = 0;                           // highest clock of the multiprocessors

  /// "sm_90".
  std::string architecture() const;
};

/// All visible GPUs. Throws Error(kDevice).
std::vector<DeviceProperties> enumerate_devices(const Driver& driver);

struct MemoryInfo {
  std::uint64_t free_bytes = 0, total_bytes = 0;
};

/// A retained primary context. Every resource on a GPU holds a reference to it, so the context
/// outlives them.
class Context {
 public:
  /// Throws Error(kDevice) listing the devices if `device` does not exist.
  static std::shared_ptr<const Context> retain(const Driver& driver, int device);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  const Driver& driver() const { return driver_; }
  CUcontext handle() const { return handle_; }
  const DeviceProperties& properties() const { return properties_; }
  MemoryInfo memory() const;

  /// Makes the context current on this thread for its lifetime.
  class Scope {
   public:
    explicit Scope(const Context& context);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    const Driver& driver_;
    bool pushed_ = false;
    friend class Context;
    Scope(const Context& context, std::nothrow_t) noexcept;
  };
  /// For destructors: a scope that does not throw, even if the driver is gone.
  Scope scope_nothrow() const noexcept;

 private:
  Context(const Driver& driver, CUdevice device, DeviceProperties properties);
  const Driver& driver_;
  CUdevice device_ = 0;
  CUcontext handle_ = nullptr;
  DeviceProperties properties_;
};

using ContextPtr = std::shared_ptr<const Context>;

/// Owns a driver handle; the entry point `kDestroy` destroys it in the handle's context.
template <typename Handle, auto kDestroy>
class Owned {
 public:
  Owned() = default;
  explicit Owned(ContextPtr context, Handle handle = nullptr)
      : context_(std::move(context)), handle_(handle) {}
  ~Owned() {
    if (!handle_) return;
    const auto scope = context_->scope_nothrow();
    (driver().*kDestroy).raw(handle_);
  }
  Owned(Owned&& other) noexcept
      : context_(std::move(other.context_)), handle_(std::exchange(other.handle_, nullptr)) {}
  Owned& operator=(Owned other) noexcept {
    std::swap(context_, other.context_);
    std::swap(handle_, other.handle_);
    return *this;
  }

  const ContextPtr& context() const { return context_; }
  const Driver& driver() const { return context_->driver(); }
  Handle get() const { return handle_; }
  Handle* put() { return &handle_; }  // output argument of driver functions that create a handle

 private:
  ContextPtr context_;
  Handle handle_ = nullptr;
};

}  // namespace sinter::graphs
