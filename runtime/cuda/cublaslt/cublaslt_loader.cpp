// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>

#include "runtime/cuda/cublaslt/cublaslt.h"
#include "runtime/format_error.h"
#include "runtime/libraries/cuda_libraries.h"

namespace sinter::runtime {
namespace {

// Newest first; both versions have the interface that the header declares.
constexpr const char* kCublasLtNames[] = {"libcublasLt.so.13", "libcublasLt.so.12"};

std::shared_ptr<const CublasLt> load_cublaslt() {
  const libraries::OpenedLibrary opened = libraries::open_cuda_library(
      kCublasLtNames, "cublasLtCreate",
      fmt::format("cuBLASLt was not found; this plan needs it for its matrix products. '{}' gets "
                  "it; or install the CUDA toolkit, or name its folder in SINTER_CUDA_LIBS.",
                  libraries::install_command(libraries::cuda_packages(), "--cuda")));
  return std::make_shared<const CublasLt>(
      [handle = opened.handle](const char* symbol) { return dlsym(handle, symbol); }, opened.path);
}

}  // namespace

void fail(const CublasLt& library, cublasStatus_t status, std::string_view call) {
  const ErrorCode code =
      status == CUBLAS_STATUS_ALLOC_FAILED ? ErrorCode::kOutOfMemory : ErrorCode::kDevice;
  throw Error(code, fmt::format("{} failed: {} ({}), cuBLASLt {} from {}", call,
                                library.status_name(status), static_cast<int>(status),
                                library.version(), library.path()));
}

CublasLt::CublasLt(const Resolver& resolve, std::string path) : path_(std::move(path)) {
  const auto find = [&](const char* symbol) {
    void* address = resolve(symbol);
    if (!address) throw device_error("{} lacks {}: cuBLASLt 12 or newer is needed", path_, symbol);
    return address;
  };
#define SINTER_FILL_ENTRY(member, symbol) \
  member = LibraryEntry<CublasLt, decltype(&::symbol)>(this, #symbol, find(#symbol));
  SINTER_CUBLASLT_FUNCTIONS(SINTER_FILL_ENTRY)
#undef SINTER_FILL_ENTRY
  status_name_ = reinterpret_cast<const char* (*)(cublasStatus_t)>(find("cublasLtGetStatusName"));
  version_ = reinterpret_cast<std::size_t (*)()>(find("cublasLtGetVersion"))();
}

const char* CublasLt::status_name(cublasStatus_t status) const {
  const char* name = status_name_(status);
  return name ? name : "unknown status";
}

std::shared_ptr<const CublasLt> CublasLt::system() {
  static std::mutex mutex;
  // Never closed: its threads and atexit handlers may outlive Sinter's objects.
  static auto* loaded = new std::shared_ptr<const CublasLt>();
  const std::lock_guard lock(mutex);
  if (!*loaded) *loaded = load_cublaslt();
  return *loaded;
}

CublasLtHandle::CublasLtHandle(std::shared_ptr<const CublasLt> library)
    : library_(std::move(library)) {
  library_->create(&handle_);
}

bool CublasLtHandle::is_first_use(const std::string& key) const {
  const std::lock_guard lock(mutex_);
  return used_.insert(key).second;
}

CublasLtHandle::~CublasLtHandle() { library_->destroy.raw(handle_); }

}  // namespace sinter::runtime
