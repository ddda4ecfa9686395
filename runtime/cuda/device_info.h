// SPDX-License-Identifier: Apache-2.0
// The CUDA components of this machine, for `sinter doctor`.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <sinter/devices.h>

namespace sinter::runtime {

struct CudaInfo {
  bool has_driver = false;
  std::string driver_problem;  // the reason, and the remedy
  int driver_version = 0;      // newest CUDA version that the driver supports: 13000 for 13.0
  std::vector<GpuInfo> gpus;
  bool has_cublaslt = false;
  std::string cublaslt_problem;
  std::string cublaslt_path;
  std::size_t cublaslt_version = 0;  // as the library reports it: 130000 for 13.0.0
  bool has_cudnn = false;
  std::string cudnn_problem;
  std::string cudnn_path;
  std::string cudnn_version;  // "9.19.0"
};

/// Loads the driver, cuBLASLt and cuDNN as a session does. Reports problems instead of throwing;
/// creates no context.
CudaInfo query_cuda();

}  // namespace sinter::runtime
