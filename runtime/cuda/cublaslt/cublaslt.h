// SPDX-License-Identifier: Apache-2.0
// cuBLASLt's entry points, loaded at run time and checked at every call.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

#include <cublasLt.h>
#include <sinter/error.h>

#include "runtime/cuda/library_entry.h"

namespace sinter::runtime {

class CublasLt;

/// Throws Error(kDevice), or kOutOfMemory for CUBLAS_STATUS_ALLOC_FAILED, with the call's name and
/// the library's text for `status`.
[[noreturn]] void fail(const CublasLt& library, cublasStatus_t status, std::string_view call);

// X(member, entry point)
#define SINTER_CUBLASLT_FUNCTIONS(X)                      \
  X(create, cublasLtCreate)                               \
  X(destroy, cublasLtDestroy)                             \
  X(matmul, cublasLtMatmul)                               \
  X(layout_create, cublasLtMatrixLayoutCreate)            \
  X(layout_destroy, cublasLtMatrixLayoutDestroy)          \
  X(layout_set, cublasLtMatrixLayoutSetAttribute)         \
  X(desc_create, cublasLtMatmulDescCreate)                \
  X(desc_destroy, cublasLtMatmulDescDestroy)              \
  X(desc_set, cublasLtMatmulDescSetAttribute)             \
  X(preference_create, cublasLtMatmulPreferenceCreate)    \
  X(preference_destroy, cublasLtMatmulPreferenceDestroy)  \
  X(preference_set, cublasLtMatmulPreferenceSetAttribute) \
  X(algo_get_heuristic, cublasLtMatmulAlgoGetHeuristic)   \
  X(algo_check, cublasLtMatmulAlgoCheck)                  \
  X(algo_config_get, cublasLtMatmulAlgoConfigGetAttribute)

class CublasLt {
 public:
  using Resolver = std::function<void*(const char* symbol)>;

  /// Fills the table. Throws Error(kDevice) naming a missing symbol. Tests pass their own resolver.
  CublasLt(const Resolver& resolve, std::string path);
  CublasLt(const CublasLt&) = delete;
  CublasLt& operator=(const CublasLt&) = delete;

  /// The first library found (cuda_libraries.h), loaded once and never unloaded. Throws
  /// Error(kDevice) with the paths tried and the remedy.
  static std::shared_ptr<const CublasLt> system();

  /// The library's version as it reports it: 130000 for 13.0.0.
  std::size_t version() const { return version_; }
  const std::string& path() const { return path_; }
  const char* status_name(cublasStatus_t status) const;

#define SINTER_DECLARE_ENTRY(member, symbol) LibraryEntry<CublasLt, decltype(&::symbol)> member;
  SINTER_CUBLASLT_FUNCTIONS(SINTER_DECLARE_ENTRY)
#undef SINTER_DECLARE_ENTRY

 private:
  const char* (*status_name_)(cublasStatus_t) = nullptr;
  std::size_t version_ = 0;
  std::string path_;
};

/// A cuBLASLt handle of the current context.
class CublasLtHandle {
 public:
  explicit CublasLtHandle(std::shared_ptr<const CublasLt> library);
  ~CublasLtHandle();
  CublasLtHandle(const CublasLtHandle&) = delete;
  CublasLtHandle& operator=(const CublasLtHandle&) = delete;

  const CublasLt& library() const { return *library_; }
  cublasLtHandle_t handle() const { return handle_; }
  /// True at the first call for `key`: loading its kernels during graph capture is not allowed.
  bool is_first_use(const std::string& key) const;

 private:
  std::shared_ptr<const CublasLt> library_;
  mutable std::mutex mutex_;
  mutable std::set<std::string> used_;
  cublasLtHandle_t handle_ = nullptr;
};

}  // namespace sinter::runtime
