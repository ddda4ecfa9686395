// Whether kernels can be compiled on this machine, for `sinter doctor`. Standard library only.
#pragma once

#include <string>

namespace sinter::codegen {

struct NvrtcInfo {
  bool found = false;
  std::string path;
  int version = 0;      // 13000 for 13.0
  std::string problem;  // why not, and how to get it
};

/// Loads NVRTC as compiling would; problems are reported, not thrown.
NvrtcInfo find_nvrtc();

}  // namespace sinter::codegen
