// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <utility>

#include <dlfcn.h>

#include "runtime/cuda/cudnn/cudnn.h"
#include "runtime/format_error.h"
#include "runtime/libraries/cuda_libraries.h"

namespace sinter::runtime {
namespace {

constexpr const char* kCudnnNames[] = {"libcudnn.so.9"};
constexpr std::size_t kOldestVersion = 90000;

std::shared_ptr<const Cudnn> load_library() {
  const libraries::OpenedLibrary opened = libraries::open_cuda_library(
      kCudnnNames, "cudnnGetVersion",
      fmt::format("cuDNN 9 (libcudnn.so.9) was not found. '{}' gets it, as does NVIDIA's package "
                  "cudnn9-cuda-13; or name its folder in SINTER_CUDA_LIBS.",
                  libraries::install_command("'nvidia-cudnn-cu13>=9,<10'", "--cudnn")));
  return std::make_shared<const Cudnn>(
      [handle = opened.handle](const char* symbol) { return dlsym(handle, symbol); }, opened.path);
}

// The thousands digit is the category, as in the header's CUDNN_STATUS_CATEGORY.
bool is_unsupported(cudnnStatus_t status) {
  return status / 1000 == CUDNN_STATUS_NOT_SUPPORTED / 1000;
}

bool is_short_of_memory(cudnnStatus_t status) {
  return status == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED ||
         status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED;
}

}  // namespace

void fail(const Cudnn& library, cudnnStatus_t status, std::string_view call) {
  const ErrorCode code = is_unsupported(status)       ? ErrorCode::kUnsupported
                         : is_short_of_memory(status) ? ErrorCode::kOutOfMemory
                                                      : ErrorCode::kDevice;
  throw Error(code, fmt::format("{} failed: {}, cuDNN {} from {}", call, library.reason(status),
                                library.version(), library.path()));
}

Cudnn::Cudnn(const Resolver& resolve, std::string path) : path_(std::move(path)) {
  const auto find = [&](const char* symbol) {
    void* address = resolve(symbol);
    if (!address) throw device_error("{} lacks {}: cuDNN 9 or newer is needed", path_, symbol);
    return address;
  };
  const std::size_t version = reinterpret_cast<std::size_t (*)()>(find("cudnnGetVersion"))();
  // Up to version 8, the major version counts 1000.
  version_ = version >= kOldestVersion
                 ? fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100)
                 : fmt::format("{}.{}.{}", version / 1000, version / 100 % 10, version % 100);
  if (version < kOldestVersion)
    throw device_error("cuDNN {} from {} is too old: version 9.0 or newer is needed", version_,
                       path_);
#define SINTER_FILL_ENTRY(member, symbol) \
  member = LibraryEntry<Cudnn, decltype(&::symbol)>(this, #symbol, find(#symbol));
  SINTER_CUDNN_FUNCTIONS(SINTER_FILL_ENTRY)
#undef SINTER_FILL_ENTRY
  error_string_ = reinterpret_cast<const char* (*)(cudnnStatus_t)>(find("cudnnGetErrorString"));
  last_error_string_ =
      reinterpret_cast<void (*)(char*, std::size_t)>(find("cudnnGetLastErrorString"));
}

std::string Cudnn::reason(cudnnStatus_t status) const {
  const char* name = error_string_(status);
  std::array<char, 1024> text{};
  last_error_string_(text.data(), text.size() - 1);
  std::string result =
      fmt::format("{} ({})", name ? name : "unknown status", static_cast<int>(status));
  if (text[0] != '\0') result += fmt::format(": {}", text.data());
  return result;
}

std::shared_ptr<const Cudnn> Cudnn::system() {
  static std::mutex mutex;
  // Never closed: its threads and atexit handlers may outlive Sinter's objects.
  static auto* loaded = new std::shared_ptr<const Cudnn>();
  const std::lock_guard lock(mutex);
  if (!*loaded) *loaded = load_library();
  return *loaded;
}

CudnnHandle::CudnnHandle(std::shared_ptr<const Cudnn> library) : library_(std::move(library)) {
  library_->create(&handle_);
}

CudnnHandle::~CudnnHandle() {
  plans_.clear();
  library_->destroy.raw(handle_);
}

void CudnnHandle::execute(cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t variant_pack,
                          CUstream stream) const {
  const std::lock_guard lock(mutex_);
  library_->set_stream(handle_, reinterpret_cast<cudaStream_t>(stream));
  library_->execute(handle_, plan, variant_pack);
}

std::shared_ptr<const ConvPlan> CudnnHandle::plan(
    const std::string& key,
    const std::function<std::shared_ptr<const ConvPlan>(cudnnHandle_t)>& make) const {
  constexpr std::size_t kMostPlans = 1024;  // a limit, since the shapes of some services vary
                                            // without bound
  const std::lock_guard lock(mutex_);
  if (const auto at = plans_.find(key); at != plans_.end()) return at->second;
  auto made = make(handle_);
  if (plans_.size() >= kMostPlans) plans_.clear();
  return plans_[key] = std::move(made);
}

std::shared_ptr<const Cudnn> load_cudnn() { return Cudnn::system(); }

std::shared_ptr<const CudnnHandle> make_cudnn_handle(std::shared_ptr<const Cudnn> library) {
  return std::make_shared<const CudnnHandle>(std::move(library));
}

CudnnInfo describe_cudnn(const Cudnn& library) { return {library.version(), library.path()}; }

std::string cudnn_version(const CudnnHandle& handle) { return handle.library()->version(); }

}  // namespace sinter::runtime
