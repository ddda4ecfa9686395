// SPDX-License-Identifier: Apache-2.0
// cuDNN's graph interface ("backend"), loaded at run time and checked at every call.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include <cudnn_graph.h>
#include <sinter/error.h>

#include "graphs/device.h"
#include "runtime/cuda/cudnn/cudnn_info.h"
#include "runtime/cuda/library_entry.h"

namespace sinter::runtime {

/// Throws Error(kUnsupported) for cuDNN's "not supported" statuses, Error(kOutOfMemory) for a
/// failed allocation, else Error(kDevice); with the call's name and the library's reason.
[[noreturn]] void fail(const Cudnn& library, cudnnStatus_t status, std::string_view call);

// X(member, entry point)
#define SINTER_CUDNN_FUNCTIONS(X)                      \
  X(create, cudnnCreate)                               \
  X(destroy, cudnnDestroy)                             \
  X(set_stream, cudnnSetStream)                        \
  X(create_descriptor, cudnnBackendCreateDescriptor)   \
  X(destroy_descriptor, cudnnBackendDestroyDescriptor) \
  X(finalize, cudnnBackendFinalize)                    \
  X(set_attribute, cudnnBackendSetAttribute)           \
  X(get_attribute, cudnnBackendGetAttribute)           \
  X(execute, cudnnBackendExecute)

class Cudnn {
 public:
  using Resolver = std::function<void*(const char* symbol)>;

  /// Fills the table. Throws Error(kDevice) naming a missing symbol or a version below 9. Tests
  /// pass their own resolver.
  Cudnn(const Resolver& resolve, std::string path);
  Cudnn(const Cudnn&) = delete;
  Cudnn& operator=(const Cudnn&) = delete;

  /// The first library found (cuda_libraries.h), loaded once and never unloaded. Throws
  /// Error(kDevice) with the paths tried and the remedy.
  static std::shared_ptr<const Cudnn> system();

  /// "9.19.0"
  const std::string& version() const { return version_; }
  const std::string& path() const { return path_; }
  /// The name of `status` and the library's reason for this thread's last failure.
  std::string reason(cudnnStatus_t status) const;

#define SINTER_DECLARE_ENTRY(member, symbol) LibraryEntry<Cudnn, decltype(&::symbol)> member;
  SINTER_CUDNN_FUNCTIONS(SINTER_DECLARE_ENTRY)
#undef SINTER_DECLARE_ENTRY

 private:
  const char* (*error_string_)(cudnnStatus_t) = nullptr;
  void (*last_error_string_)(char*, std::size_t) = nullptr;
  std::string version_, path_;
};

class ConvPlan;

/// A cuDNN handle of the current context, and the convolutions prepared with it. Sessions on any
/// thread share it; a lock serializes them, since cuDNN allows one thread at a time.
class CudnnHandle {
 public:
  explicit CudnnHandle(std::shared_ptr<const Cudnn> library);
  ~CudnnHandle();
  CudnnHandle(const CudnnHandle&) = delete;
  CudnnHandle& operator=(const CudnnHandle&) = delete;

  const std::shared_ptr<const Cudnn>& library() const { return library_; }

  /// Calls `use` with exclusive access to the handle.
  template <typename Use>
  auto with(const Use& use) const {
    const std::lock_guard lock(mutex_);
    return use(handle_);
  }
  /// Enqueues an execution plan on `stream`.
  void execute(cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t variant_pack,
               CUstream stream) const;

  /// Returns the cached plan for `key`, or calls `make`. That can take a second, since some engines
  /// are compiled at run time.
  std::shared_ptr<const ConvPlan> plan(
      const std::string& key,
      const std::function<std::shared_ptr<const ConvPlan>(cudnnHandle_t)>& make) const;

 private:
  std::shared_ptr<const Cudnn> library_;
  cudnnHandle_t handle_ = nullptr;
  mutable std::mutex mutex_;
  mutable std::map<std::string, std::shared_ptr<const ConvPlan>> plans_;
};

}  // namespace sinter::runtime
