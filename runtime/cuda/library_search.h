// Where NVIDIA's libraries are found at run time: nothing is linked.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace sinter::runtime {

/// Folders that may hold CUDA libraries, in the order in which they are searched; the loader's own
/// path comes after the first `first_count` of them.
struct LibraryFolders {
  std::vector<std::string> folders;
  std::size_t first_count = 0;
};

/// The folders of $SINTER_CUDA_LIBS, then (behind the loader's path) of $CUDA_HOME and
/// /usr/local/cuda, then of PyPI wheels in a .venv or .deps next to the binary or above it.
LibraryFolders cuda_library_folders();

struct OpenedLibrary {
  void* handle = nullptr;  // of dlopen; never closed: a library's threads may outlive its users
  std::string path;
};

/// The first of `names` that is found in those folders, in their order. `symbol` is one that the
/// library has: it tells the path of what the loader found. Throws Error(kDevice) with `missing`
/// and what was tried.
OpenedLibrary open_cuda_library(std::span<const char* const> names, const char* symbol,
                                const std::string& missing);

}  // namespace sinter::runtime
