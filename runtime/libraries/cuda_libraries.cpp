// SPDX-License-Identifier: Apache-2.0
#include "runtime/libraries/cuda_libraries.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>

#include <dlfcn.h>

#include "runtime/format_error.h"

namespace sinter::libraries {
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

/// Adds lib64 and lib of a toolkit.
void add_toolkit(std::vector<std::string>& folders, const fs::path& root) {
  add_if_folder(folders, root / "lib64");
  add_if_folder(folders, root / "lib");
}

/// Adds the library folders of PyPI's packages: nvidia/<package>/lib, where CUDA 13 has one package
/// for all libraries (cu13), and torch/lib, where some torch builds bundle their own.
void add_packages(std::vector<std::string>& folders, const fs::path& packages) {
  std::error_code error;
  std::vector<fs::path> found;
  for (fs::directory_iterator at(packages / "nvidia", error), end; !error && at != end;
       at.increment(error))
    found.push_back(at->path() / "lib");
  std::ranges::sort(found);
  for (const fs::path& folder : found) add_if_folder(folders, folder);
  add_if_folder(folders, packages / "torch" / "lib");
}

/// Adds a Python environment's packages, or a user's own.
void add_environment(std::vector<std::string>& folders, const fs::path& environment) {
  std::error_code error;
  std::vector<fs::path> versions;
  for (fs::directory_iterator at(environment / "lib", error), end; !error && at != end;
       at.increment(error))
    if (at->path().filename().string().starts_with("python")) versions.push_back(at->path());
  std::ranges::sort(versions);
  for (const fs::path& version : versions)
    for (const char* packages : {"site-packages", "dist-packages"})
      add_packages(folders, version / packages);
}

/// The file that contains this code: a program, or a shared library.
fs::path own_file() {
  Dl_info info{};
  std::error_code error;
  // For a program, dladdr returns argv[0], possibly without a path.
  if (dladdr(reinterpret_cast<const void*>(&own_file), &info) != 0 && info.dli_fname != nullptr &&
      std::string_view(info.dli_fname).find('/') != std::string_view::npos) {
    fs::path file = fs::canonical(info.dli_fname, error);
    if (!error) return file;
  }
  return fs::read_symlink("/proc/self/exe", error);
}

/// The ancestor folders of `binary`: the repository is two levels above build/bin/sinter.
std::vector<fs::path> folders_above(const std::string& binary) {
  constexpr int kLevels = 5;
  std::vector<fs::path> above;
  fs::path folder = (binary.empty() ? own_file() : fs::path(binary)).parent_path();
  for (int level = 0; level < kLevels && !folder.empty(); ++level) {
    above.push_back(folder);
    if (folder == folder.root_path()) break;
    folder = folder.parent_path();
  }
  return above;
}

/// Whether `folder` is a package folder of a Python environment.
bool holds_packages(const fs::path& folder) {
  return folder.filename() == "site-packages" || folder.filename() == "dist-packages";
}

/// A folder above the binary may contain anybody's files. It counts as a source tree only if it has
/// tools/setup and is not world-writable, as /tmp is.
bool is_source_tree(const fs::path& folder) {
  constexpr fs::perms kForAll = fs::perms::others_write | fs::perms::sticky_bit;
  std::error_code error;
  return fs::is_regular_file(folder / "tools/setup", error) &&
         (fs::status(folder, error).permissions() & kForAll) != kForAll;
}

}  // namespace

LibraryFolders cuda_library_folders(const std::string& binary) {
  LibraryFolders result;
  if (const char* listed = std::getenv("SINTER_CUDA_LIBS")) result.folders = split(listed);
  result.first_count = result.folders.size();
  for (const char* variable : {"SINTER_CUDA_HOME", "CUDA_HOME", "CUDA_PATH"})
    if (const char* home = std::getenv(variable)) add_toolkit(result.folders, home);
  add_toolkit(result.folders, "/usr/local/cuda");
  for (const char* variable : {"VIRTUAL_ENV", "CONDA_PREFIX"})
    if (const char* environment = std::getenv(variable))
      add_environment(result.folders, environment);
  const std::vector<fs::path> above = folders_above(binary);
  for (const fs::path& folder : above)
    if (holds_packages(folder)) add_packages(result.folders, folder);
  if (const char* home = std::getenv("HOME"); home != nullptr && home[0] == '/')
    add_environment(result.folders, fs::path(home) / ".local");
  for (const fs::path& folder : above) {
    if (!is_source_tree(folder)) continue;
    add_environment(result.folders, folder / ".venv");
    add_toolkit(result.folders, folder / ".deps/cuda");
    add_packages(result.folders, folder / ".deps/pypi");  // packages of tools/setup --cuda, --cudnn
  }
  return result;
}

OpenedLibrary open_cuda_library(std::span<const char* const> names, const char* symbol,
                                const std::string& missing, const LibraryFolders& search) {
  std::vector<std::string> candidates;
  const auto add_folder = [&](const std::string& folder) {
    for (const char* name : names) {
      const fs::path path = fs::path(folder) / name;
      std::error_code ignored;
      if (fs::exists(path, ignored)) candidates.push_back(path.string());
    }
  };
  for (std::size_t i = 0; i < search.first_count; ++i) add_folder(search.folders[i]);
  if (search.loader_path)
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
  throw device_error("{} Looked for {} in {}{}{}", missing, fmt::join(names, ", "),
                     search.loader_path ? "the loader's path, " : "",
                     fmt::join(search.folders, ", "), reasons);
}

std::string_view cuda_packages() { return SINTER_CUDA_PACKAGES; }

std::string install_command(std::string_view packages, std::string_view setup_option,
                            const std::string& binary) {
  for (const fs::path& folder : folders_above(binary))
    if (is_source_tree(folder))
      return fmt::format("{} {}", (folder / "tools/setup").string(), setup_option);
  return fmt::format("pip install {}", packages);
}

}  // namespace sinter::libraries
