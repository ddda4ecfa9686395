// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/library_context.h"

#include <fmt/format.h>

#include "runtime/cuda/cublaslt/cublaslt.h"
#include "runtime/cuda/cudnn/cudnn_info.h"

namespace sinter::runtime {

std::string tuning_environment(const graphs::Context& context, const CublasLtHandle* cublaslt,
                               const CudnnHandle* cudnn) {
  const auto& gpu = context.properties();
  std::string text = fmt::format("{} {} {} SMs; driver {}", gpu.name, gpu.architecture(),
                                 gpu.multiprocessors, context.driver().version());
  if (cublaslt) text += fmt::format("; cuBLASLt {}", cublaslt->library().version());
  if (cudnn) text += fmt::format("; cuDNN {}", cudnn_version(*cudnn));
  return text;
}

}  // namespace sinter::runtime
