// SPDX-License-Identifier: Apache-2.0
// Ranks on GPUs in a build without CUDA headers.
#include "runtime/format_error.h"
#include "runtime/ranks/rank_devices.h"

namespace sinter::runtime {

std::unique_ptr<RankDevices> make_rank_gpus(int, const SessionOptions&) {
  throw device_error(
      "the plan is for CUDA, but this build of Sinter is CPU-only: compile the model with "
      "--target=cpu, or build with a CUDA toolkit ('tools/setup --cuda' gets the needed parts)");
}

}  // namespace sinter::runtime
