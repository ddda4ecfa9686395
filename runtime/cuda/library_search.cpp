#include "runtime/cuda/library_search.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>

#include <dlfcn.h>
#include <fmt/format.h>
#include <sinter/error.h>

namespace sinter::runtime {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> split(std::string_view list) {
  std::vector<std::string> parts;
  while (!list.empty()) {
    const std::size_t end = std::min(list.find(':'), list.size());
    if (end > 0) parts.emplace_back(list.substr(0, end));
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return parts;
}

void add_if_folder(std::vector<std::string>& folders, const fs::path& folder) {
  std::error_code ignored;
  if (fs::is_directory(folder, ignored)) folders.push_back(folder.string());
}

// Where the PyPI wheels nvidia-cublas (13), nvidia-cublas-cu12 and nvidia-cudnn-cu13 put their
// libraries.
void add_wheels(std::vector<std::string>& folders, const fs::path& packages) {
  for (const char* wheel : {"cu13", "cublas", "cudnn"})
    add_if_folder(folders, packages / "nvidia" / wheel / "lib");
}

void add_environment(std::vector<std::string>& folders, const fs::path& environment) {
  std::error_code error;
  std::vector<fs::path> versions;
  for (fs::directory_iterator at(environment / "lib", error), end; !error && at != end;
       at.increment(error))
    if (at->path().filename().string().starts_with("python")) versions.push_back(at->path());
  std::sort(versions.begin(), versions.end());
  for (const fs::path& version : versions) add_wheels(folders, version / "site-packages");
}

}  // namespace

LibraryFolders cuda_library_folders() {
  LibraryFolders result;
  if (const char* listed = std::getenv("SINTER_CUDA_LIBS")) result.folders = split(listed);
  result.first_count = result.folders.size();
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"})
    if (const char* home = std::getenv(variable)) {
      add_if_folder(result.folders, fs::path(home) / "lib64");
      add_if_folder(result.folders, fs::path(home) / "lib");
    }
  add_if_folder(result.folders, "/usr/local/cuda/lib64");
  if (const char* environment = std::getenv("VIRTUAL_ENV"))
    add_environment(result.folders, environment);
  std::error_code error;
  // build/bin/sinter: the repository is two folders up, an installed prefix one.
  fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
  for (int level = 0; !error && level < 4 && !folder.empty(); ++level) {
    add_environment(result.folders, folder / ".venv");
    add_environment(result.folders, folder / ".deps");
    add_if_folder(result.folders, folder / ".deps/cuda/lib");
    add_if_folder(result.folders, folder / ".deps/cuda/lib64");
    add_wheels(result.folders, folder / ".deps/pypi");  // of tools/setup --cuda, --cudnn
    if (folder == folder.root_path()) break;
    folder = folder.parent_path();
  }
  return result;
}

OpenedLibrary open_cuda_library(std::span<const char* const> names, const char* symbol,
                                const std::string& missing) {
  const LibraryFolders search = cuda_library_folders();
  std::vector<std::string> candidates;
  const auto add_folder = [&](const std::string& folder) {
    for (const char* name : names) {
      const fs::path path = fs::path(folder) / name;
      std::error_code ignored;
      if (fs::exists(path, ignored)) candidates.push_back(path.string());
    }
  };
  for (std::size_t i = 0; i < search.first_count; ++i) add_folder(search.folders[i]);
  for (const char* name : names) candidates.emplace_back(name);
  for (std::size_t i = search.first_count; i < search.folders.size(); ++i)
    add_folder(search.folders[i]);

  std::string reasons;
  for (const std::string& candidate : candidates) {
    if (void* handle = dlopen(candidate.c_str(), RTLD_LAZY | RTLD_LOCAL)) {
      OpenedLibrary opened{handle, candidate};
      Dl_info info{};
      if (void* address = dlsym(handle, symbol))
        if (dladdr(address, &info) != 0 && info.dli_fname) opened.path = info.dli_fname;
      return opened;
    }
    const char* reason = dlerror();
    reasons += fmt::format("\n  {}", reason ? reason : candidate.c_str());
  }
  throw Error(ErrorCode::kDevice, fmt::format("{} Tried:{}", missing, reasons));
}

}  // namespace sinter::runtime
