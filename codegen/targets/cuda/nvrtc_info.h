// SPDX-License-Identifier: Apache-2.0
// Whether this machine can compile kernels, for `sinter doctor`. Standard library only.
#pragma once

#include <string>

namespace sinter::codegen {

struct NvrtcInfo {
  bool found = false;
  std::string path;
  int version = 0;      // 13000 for 13.0
  std::string problem;  // why not, and how to get it
};

/// Loads NVRTC as compilation does; reports problems instead of throwing.
NvrtcInfo find_nvrtc();

}  // namespace sinter::codegen
