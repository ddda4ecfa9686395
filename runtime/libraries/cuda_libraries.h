// SPDX-License-Identifier: Apache-2.0
// Finds NVIDIA's libraries at run time: nothing is linked. Includes no CUDA header.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sinter::libraries {

/// Folders that may contain CUDA libraries, in search order. The loader's own path, and libraries
/// already loaded, come after the first `first_count` folders.
struct LibraryFolders {
  std::vector<std::string> folders;
  std::size_t first_count = 0;
  bool loader_path = true;  // false: searches the folders only
};

/// Search order: $SINTER_CUDA_LIBS; the loader's path; the toolkits in $SINTER_CUDA_HOME,
/// $CUDA_HOME, $CUDA_PATH and /usr/local/cuda; PyPI's nvidia-* packages and torch. The packages are
/// searched in $VIRTUAL_ENV, $CONDA_PREFIX, the Python environment that contains this library, and
/// the user's site-packages. Last comes what tools/setup installed in the source tree that contains
/// the binary. `binary`: the file of this code; empty: determined at run time.
LibraryFolders cuda_library_folders(const std::string& binary = "");

struct OpenedLibrary {
  void* handle = nullptr;  // of dlopen; never closed: a library's threads may outlive its users
  std::string path;
};

/// Opens the first of `names` found in `search`. `symbol` is one of the library's functions; its
/// address yields the path of a library that the loader found. Throws Error(kDevice) with
/// `missing`, the folders searched, and why a library found there could not be opened.
OpenedLibrary open_cuda_library(std::span<const char* const> names, const char* symbol,
                                const std::string& missing,
                                const LibraryFolders& search = cuda_library_folders());

/// NVRTC's and cuBLAS's packages at the tested versions, as arguments of `pip install`: the `cuda`
/// extra of the Python package.
std::string_view cuda_packages();

/// The command that installs a missing library in a folder that is searched: "tools/setup OPTION"
/// for a binary in a source tree, else "pip install PACKAGES". `binary`: as above.
std::string install_command(std::string_view packages, std::string_view setup_option,
                            const std::string& binary = "");

}  // namespace sinter::libraries
