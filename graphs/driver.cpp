// SPDX-License-Identifier: Apache-2.0
#include "graphs/driver.h"

#include <mutex>

#include <dlfcn.h>
#include <fmt/format.h>

namespace sinter::graphs {
namespace {

#define SINTER_STRING(text) #text
// Expands the header's version macro first, to "cuMemAlloc_v2" for example.
#define SINTER_EXPANDED_STRING(text) SINTER_STRING(text)

constexpr const char* kNoDriver =
    "no NVIDIA driver: libcuda.so.1 was not found ({}). Install the driver for your GPU from "
    "https://www.nvidia.com/drivers, give a container access to it (docker run --gpus all), or "
    "compile the model for the CPU with --target=cpu";

void* open_system_library() {
  if (void* handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL)) return handle;
  const char* reason = dlerror();
  throw Error(ErrorCode::kDevice, fmt::format(kNoDriver, reason ? reason : "unknown reason"));
}

void* resolve_or_fail(const Driver::Resolver& resolve, const char* symbol, const char* name) {
  if (void* address = resolve(symbol)) return address;
  // Falls back to the first version for entry points whose newest version has the same signature.
  if (std::string_view(name) == "cuEventElapsedTime")
    if (void* address = resolve(name)) return address;
  throw Error(ErrorCode::kDevice,
              fmt::format("the NVIDIA driver is too old: it lacks {}. Install a driver for CUDA 12 "
                          "or newer from https://www.nvidia.com/drivers",
                          symbol));
}

}  // namespace

void fail(const Driver& driver, CUresult result, std::string_view call) {
  const char* name = nullptr;
  const char* text = nullptr;
  if (driver.get_error_name.raw(result, &name) != CUDA_SUCCESS || !name) name = "unknown error";
  if (driver.get_error_string.raw(result, &text) != CUDA_SUCCESS || !text) text = "no description";
  const ErrorCode code =
      result == CUDA_ERROR_OUT_OF_MEMORY ? ErrorCode::kOutOfMemory : ErrorCode::kDevice;
  throw Error(code,
              fmt::format("{} failed: {} ({}): {}", call, name, static_cast<int>(result), text));
}

Driver::Driver(const Resolver& resolve) {
#define SINTER_FILL_ENTRY(member, symbol) \
  member = Entry<decltype(&::symbol)>(    \
      this, #symbol, resolve_or_fail(resolve, SINTER_EXPANDED_STRING(symbol), #symbol));
#define SINTER_FILL_OPTIONAL_ENTRY(member, symbol) \
  member = Entry<decltype(&::symbol)>(this, #symbol, resolve(SINTER_EXPANDED_STRING(symbol)));
  SINTER_DRIVER_FUNCTIONS(SINTER_FILL_ENTRY)
  SINTER_DRIVER_OPTIONAL_FUNCTIONS(SINTER_FILL_OPTIONAL_ENTRY)

  const CUresult result = init.raw(0);
  if (result == CUDA_ERROR_NO_DEVICE)
    throw Error(ErrorCode::kDevice,
                "no NVIDIA GPU: the driver is installed but sees no device (check nvidia-smi and "
                "CUDA_VISIBLE_DEVICES), or compile the model for the CPU with --target=cpu");
  if (result != CUDA_SUCCESS) fail(*this, result, "cuInit");
  driver_get_version(&version_);
}

const Driver& Driver::system() {
  static std::mutex mutex;
  // Never destroyed: static sessions may be destroyed later.
  static const Driver* driver = nullptr;
  const std::lock_guard lock(mutex);
  if (!driver) {
    void* library = open_system_library();
    driver = new Driver([library](const char* symbol) { return dlsym(library, symbol); });
  }
  return *driver;
}

}  // namespace sinter::graphs
