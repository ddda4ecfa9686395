// SPDX-License-Identifier: Apache-2.0
// Replaces the sources that use cuDNN in a build without cuDNN's headers: every plan then runs as
// on a machine without cuDNN.

#include "runtime/cuda/cudnn/conv_cudnn.h"
#include "runtime/format_error.h"

namespace sinter::runtime {
namespace {

[[noreturn]] void refuse() {
  throw device_error(
      "this build of Sinter cannot use cuDNN: it was built without cuDNN's headers. "
      "Install cuDNN 9 with its headers (tools/setup --cudnn) and build again");
}

}  // namespace

std::shared_ptr<const Cudnn> load_cudnn() { refuse(); }
std::shared_ptr<const CudnnHandle> make_cudnn_handle(std::shared_ptr<const Cudnn>) { refuse(); }
CudnnInfo describe_cudnn(const Cudnn&) { refuse(); }
std::string cudnn_version(const CudnnHandle&) { refuse(); }

struct ConvLaunch::Impl {};
ConvLaunch::ConvLaunch(const LibraryContext&, const ConvProblem&, const ConvAddresses&) {
  refuse();
}
ConvLaunch::~ConvLaunch() = default;
ConvLaunch::ConvLaunch(ConvLaunch&&) noexcept = default;
void ConvLaunch::launch(CUstream) const { refuse(); }
std::string ConvLaunch::describe() const { refuse(); }
std::uint64_t ConvLaunch::workspace_bytes() const { refuse(); }

}  // namespace sinter::runtime
