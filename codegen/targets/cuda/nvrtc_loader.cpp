// SPDX-License-Identifier: Apache-2.0
#include "codegen/targets/cuda/nvrtc_loader.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <optional>

#include <dlfcn.h>
#include <fmt/format.h>
#include <sinter/error.h>

namespace sinter::codegen {

namespace fs = std::filesystem;

namespace {

constexpr const char* kNvrtcNames[] = {"libnvrtc.so.13", "libnvrtc.so.12"};  // newest first

template <typename Function>
void find_symbol(void* library, const std::string& path, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr)
    throw Error(ErrorCode::kDevice,
                fmt::format("{} has no function '{}': it is damaged or not NVRTC", path, name));
}

/// While compiling, NVRTC opens its builtins library by bare name. Loading it here first, from
/// NVRTC's folder, makes that work; if it is not there, the loader may still find it.
void open_builtins(const std::string& nvrtc, int version) {
  const std::string name =
      fmt::format("libnvrtc-builtins.so.{}.{}", version / 1000, version % 1000 / 10);
  const fs::path beside = fs::path(nvrtc).parent_path() / name;
  if (dlopen(beside.c_str(), RTLD_NOW | RTLD_GLOBAL) != nullptr) return;
  if (dlopen(name.c_str(), RTLD_NOW | RTLD_GLOBAL) != nullptr) return;
  throw Error(
      ErrorCode::kDevice,
      fmt::format("NVRTC was found at {}, but its library {} is neither beside it nor in the "
                  "loader's path: install the package that holds both, or run '{}'",
                  nvrtc, name, libraries::install_command(libraries::cuda_packages(), "--cuda")));
}

}  // namespace

Nvrtc load_nvrtc_from(const libraries::LibraryFolders& search) {
  const libraries::OpenedLibrary opened = libraries::open_cuda_library(
      kNvrtcNames, "nvrtcVersion",
      fmt::format("NVRTC, which compiles GPU kernels, was not found. '{}' gets it; or name its "
                  "folder in SINTER_CUDA_LIBS, or that of a CUDA toolkit in CUDA_HOME.",
                  libraries::install_command(libraries::cuda_packages(), "--cuda")),
      search);
  Nvrtc nvrtc;
  const auto find = [&](const char* name, auto& function) {
    find_symbol(opened.handle, opened.path, name, function);
  };
  find("nvrtcGetErrorString", nvrtc.get_error_string);
  find("nvrtcVersion", nvrtc.get_version);
  find("nvrtcCreateProgram", nvrtc.create_program);
  find("nvrtcDestroyProgram", nvrtc.destroy_program);
  find("nvrtcCompileProgram", nvrtc.compile_program);
  find("nvrtcGetCUBINSize", nvrtc.get_cubin_size);
  find("nvrtcGetCUBIN", nvrtc.get_cubin);
  find("nvrtcGetProgramLogSize", nvrtc.get_log_size);
  find("nvrtcGetProgramLog", nvrtc.get_log);
  find("nvrtcGetNumSupportedArchs", nvrtc.get_arch_count);
  find("nvrtcGetSupportedArchs", nvrtc.get_archs);
  int major = 0, minor = 0;
  nvrtc.get_version(&major, &minor);
  nvrtc.version = major * 1000 + minor * 10;
  std::error_code error;
  const fs::path real = fs::canonical(opened.path, error);
  nvrtc.path = error ? opened.path : real.string();
  open_builtins(nvrtc.path, nvrtc.version);
  return nvrtc;
}

const Nvrtc& load_nvrtc() {
  static std::mutex mutex;
  static std::optional<Nvrtc> loaded;
  const std::lock_guard lock(mutex);
  if (!loaded) loaded = load_nvrtc_from(libraries::cuda_library_folders());
  return *loaded;
}

}  // namespace sinter::codegen
