// SPDX-License-Identifier: Apache-2.0
#include "codegen/targets/cuda/nvrtc_info.h"

#include <sinter/error.h>

#include "codegen/targets/cuda/nvrtc_loader.h"

namespace sinter::codegen {

NvrtcInfo find_nvrtc() {
  NvrtcInfo info;
  try {
    const auto& nvrtc = load_nvrtc();
    info = {true, nvrtc.path, nvrtc.version, {}};
  } catch (const Error& error) {
    info.problem = error.what();
  }
  return info;
}

}  // namespace sinter::codegen
