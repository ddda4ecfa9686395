// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/device_info.h"

#include "graphs/device.h"
#include "runtime/cuda/cublaslt/cublaslt.h"
#include "runtime/cuda/cudnn/cudnn_info.h"

namespace sinter::runtime {

CudaInfo query_cuda() {
  CudaInfo info;
  try {
    const graphs::Driver& driver = graphs::Driver::system();
    info.has_driver = true;
    info.driver_version = driver.version();
    for (const auto& gpu : graphs::enumerate_devices(driver))
      info.gpus.push_back({gpu.index, gpu.name, gpu.architecture(), gpu.multiprocessors,
                           gpu.memory_bytes, gpu.l2_bytes});
  } catch (const Error& error) {
    info.driver_problem = error.what();
  }
  try {
    const auto library = CublasLt::system();
    info.has_cublaslt = true;
    info.cublaslt_path = library->path();
    info.cublaslt_version = library->version();
  } catch (const Error& error) {
    info.cublaslt_problem = error.what();
  }
  try {
    const CudnnInfo cudnn = describe_cudnn(*load_cudnn());
    info.has_cudnn = true;
    info.cudnn_path = cudnn.path;
    info.cudnn_version = cudnn.version;
  } catch (const Error& error) {
    info.cudnn_problem = error.what();
  }
  return info;
}

}  // namespace sinter::runtime
