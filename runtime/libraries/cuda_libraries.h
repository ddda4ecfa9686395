// SPDX-License-Identifier: Apache-2.0
// Where NVIDIA's libraries are found when they are needed: nothing is linked. Knows no CUDA header.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sinter::libraries {

/// Folders that may hold CUDA libraries, in the order in which they are searched; the loader's own
/// path, and what the process has already loaded, come after the first `first_count` of them.
struct LibraryFolders {
  std::vector<std::string> folders;
  std::size_t first_count = 0;
  bool loader_path = true;  // false: the folders alone
};

/// The folders of $SINTER_CUDA_LIBS, then (behind the loader's path) of the toolkits in
/// $SINTER_CUDA_HOME, $CUDA_HOME, $CUDA_PATH and /usr/local/cuda, then of PyPI's nvidia-* packages
/// and torch: in $VIRTUAL_ENV, in $CONDA_PREFIX, in the Python environment that this library is
/// installed in, in the user's site-packages; last what tools/setup put into the source tree that
/// the binary lies in. `binary`: the file of this code; empty: it is looked up.
LibraryFolders cuda_library_folders(const std::string& binary = "");

struct OpenedLibrary {
  void* handle = nullptr;  // of dlopen; never closed: a library's threads may outlive its users
  std::string path;
};

/// The first of `names` that is found, in their order, in `search`. `symbol` is one that the
/// library has: it tells the path of what the loader found. Throws Error(kDevice) with `missing`,
/// where it was looked for, and why what was found could not be opened.
OpenedLibrary open_cuda_library(std::span<const char* const> names, const char* symbol,
                                const std::string& missing,
                                const LibraryFolders& search = cuda_library_folders());

/// NVRTC's and cuBLAS's packages at the versions that are tested, as words of `pip install`: what
/// the Python package's extra `cuda` has.
std::string_view cuda_packages();

/// The command that installs what is missing where it is found: "tools/setup OPTION" for a binary
/// in a source tree, else "pip install PACKAGES". `binary`: as above.
std::string install_command(std::string_view packages, std::string_view setup_option,
                            const std::string& binary = "");

}  // namespace sinter::libraries
