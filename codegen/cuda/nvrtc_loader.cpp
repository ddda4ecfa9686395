#include "codegen/cuda/nvrtc_loader.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <optional>

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sinter/error.h>

namespace sinter::codegen {

namespace fs = std::filesystem;

namespace {

constexpr int kMajorVersions[] = {13, 12};  // newest first

void add_folder(std::vector<std::string>& folders, const fs::path& folder) {
  std::error_code ignored;
  if (fs::is_directory(folder, ignored) &&
      std::find(folders.begin(), folders.end(), folder.string()) == folders.end())
    folders.push_back(folder.string());
}

/// lib64 and lib of a toolkit.
void add_toolkit(std::vector<std::string>& folders, const fs::path& root) {
  add_folder(folders, root / "lib64");
  add_folder(folders, root / "lib");
}

/// Where the PyPI wheels of NVRTC put it: site-packages/nvidia/cu13/lib or nvidia/cuda_nvrtc/lib.
void add_wheels(std::vector<std::string>& folders, const fs::path& venv) {
  std::error_code error;
  std::vector<fs::path> pythons;
  for (const auto& entry : fs::directory_iterator(venv / "lib", error))
    if (entry.path().filename().string().starts_with("python")) pythons.push_back(entry.path());
  std::sort(pythons.begin(), pythons.end());
  for (const fs::path& python : pythons)
    for (const char* package : {"cu13", "cu12", "cuda_nvrtc"})
      add_folder(folders, python / "site-packages" / "nvidia" / package / "lib");
}

template <typename Function>
void find_symbol(void* library, const std::string& path, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr)
    throw Error(ErrorCode::kDevice,
                fmt::format("{} has no function '{}': it is damaged or not NVRTC", path, name));
}

/// NVRTC opens its builtins library by bare name while compiling. Opened here from NVRTC's own
/// folder, it is found wherever that is; if it is in no folder the loader may still find it.
void open_builtins(const std::string& nvrtc, int version) {
  const std::string name =
      fmt::format("libnvrtc-builtins.so.{}.{}", version / 1000, version % 1000 / 10);
  const fs::path beside = fs::path(nvrtc).parent_path() / name;
  if (dlopen(beside.c_str(), RTLD_NOW | RTLD_GLOBAL) != nullptr) return;
  if (dlopen(name.c_str(), RTLD_NOW | RTLD_GLOBAL) != nullptr) return;
  throw Error(
      ErrorCode::kDevice,
      fmt::format("NVRTC was found at {}, but its library {} is neither beside it nor in the "
                  "loader's path: install the package that holds both, or run "
                  "'tools/setup --cuda'",
                  nvrtc, name));
}

/// The file that an open library came from.
std::string path_of(void* symbol, const std::string& otherwise) {
  Dl_info info = {};
  if (dladdr(symbol, &info) == 0 || info.dli_fname == nullptr) return otherwise;
  std::error_code error;
  const fs::path real = fs::canonical(info.dli_fname, error);
  return error ? std::string(info.dli_fname) : real.string();
}

}  // namespace

std::vector<std::string> nvrtc_search_folders() {
  std::vector<std::string> folders;
  for (const char* variable : {"SINTER_CUDA_HOME", "CUDA_HOME", "CUDA_PATH"})
    if (const char* root = std::getenv(variable)) add_toolkit(folders, root);
  add_toolkit(folders, "/usr/local/cuda");
  if (const char* venv = std::getenv("VIRTUAL_ENV")) add_wheels(folders, venv);
  // The trees that tools/setup makes lie in a folder above the binary.
  std::error_code error;
  fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
  for (int level = 0; level < 5 && !folder.empty(); ++level) {
    add_toolkit(folders, folder / ".deps" / "cuda");
    add_wheels(folders, folder / ".venv");
    if (folder == folder.root_path()) break;
    folder = folder.parent_path();
  }
  return folders;
}

Nvrtc load_nvrtc_from(const std::vector<std::string>& folders, bool loader_path) {
  void* library = nullptr;
  std::string opened;
  const auto try_open = [&](const std::string& path) {
    if (library != nullptr) return;
    library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    opened = path;
  };
  for (int major : kMajorVersions) {
    const std::string name = fmt::format("libnvrtc.so.{}", major);
    if (loader_path) try_open(name);
    for (const std::string& folder : folders) try_open(folder + "/" + name);
  }
  if (library == nullptr)
    throw Error(
        ErrorCode::kDevice,
        fmt::format(
            "NVRTC, which compiles GPU kernels, was not found: neither libnvrtc.so.13 nor "
            "libnvrtc.so.12 is in the loader's path{}{}. Run 'tools/setup --cuda' to get it, "
            "or set CUDA_HOME to a CUDA toolkit",
            folders.empty() ? "" : " or in ", fmt::join(folders, ", ")));
  Nvrtc nvrtc;
  const auto find = [&](const char* name, auto& function) {
    find_symbol(library, opened, name, function);
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
  nvrtc.path = path_of(reinterpret_cast<void*>(nvrtc.get_version), opened);
  open_builtins(nvrtc.path, nvrtc.version);
  return nvrtc;
}

const Nvrtc& load_nvrtc() {
  static std::mutex mutex;
  static std::optional<Nvrtc> loaded;
  const std::lock_guard lock(mutex);
  if (!loaded) loaded = load_nvrtc_from(nvrtc_search_folders(), true);
  return *loaded;
}

}  // namespace sinter::codegen
