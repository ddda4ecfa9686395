// SPDX-License-Identifier: Apache-2.0
// Loads NVRTC at run time: binaries with the CUDA target also work on machines without it.
#pragma once

#include <string>

#include <nvrtc.h>

#include "runtime/libraries/cuda_libraries.h"

namespace sinter::codegen {

/// The functions of libnvrtc that Sinter calls, and its path.
struct Nvrtc {
  std::string path;
  int version = 0;  // 13000 for 13.0
  decltype(&nvrtcGetErrorString) get_error_string = nullptr;
  decltype(&nvrtcVersion) get_version = nullptr;
  decltype(&nvrtcCreateProgram) create_program = nullptr;
  decltype(&nvrtcDestroyProgram) destroy_program = nullptr;
  decltype(&nvrtcCompileProgram) compile_program = nullptr;
  decltype(&nvrtcGetCUBINSize) get_cubin_size = nullptr;
  decltype(&nvrtcGetCUBIN) get_cubin = nullptr;
  decltype(&nvrtcGetProgramLogSize) get_log_size = nullptr;
  decltype(&nvrtcGetProgramLog) get_log = nullptr;
  decltype(&nvrtcGetNumSupportedArchs) get_arch_count = nullptr;
  decltype(&nvrtcGetSupportedArchs) get_archs = nullptr;
};

/// Loads NVRTC once and keeps it. Throws Error(kDevice) that names the libraries and folders tried
/// and how to install it; a later call tries again.
const Nvrtc& load_nvrtc();

/// Loads it from the given folders, without keeping it; for tests of missing libraries.
Nvrtc load_nvrtc_from(const libraries::LibraryFolders& search);

}  // namespace sinter::codegen
