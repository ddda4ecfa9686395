// SPDX-License-Identifier: Apache-2.0
// Forward declarations for cuDNN and its handles, and facts about the library, without its headers.
#pragma once

#include <memory>
#include <string>

namespace sinter::runtime {

class Cudnn;        // the library
class CudnnHandle;  // a handle of the library in a context

/// Loads the machine's cuDNN. Throws Error(kDevice) with the paths tried and the remedy.
std::shared_ptr<const Cudnn> load_cudnn();
/// A handle of the current context.
std::shared_ptr<const CudnnHandle> make_cudnn_handle(std::shared_ptr<const Cudnn> library);

struct CudnnInfo {
  std::string version, path;  // "9.19.0"
};
CudnnInfo describe_cudnn(const Cudnn& library);
std::string cudnn_version(const CudnnHandle& handle);

}  // namespace sinter::runtime
