// SPDX-License-Identifier: Apache-2.0
// A cuDNN that computes float32 convolutions on the host from their descriptors, as the library's
// documentation says it does, and refuses descriptors that the library would refuse. It works on
// streams of the fake driver.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/cuda/cudnn/cudnn.h"
#include "tests/runtime/cuda/fake_cudnn_engine.h"

namespace sinter::testing {

struct FakeCudnn {
  void reset();

  std::size_t version = 91900;
  cudnnStatus_t create = CUDNN_STATUS_SUCCESS;
  std::vector<FakeEngine> engines{{}};
  // Graphs with one of these operations have no engine.
  std::vector<cudnnPointwiseMode_t> unsupported;

  int heuristics = 0;  // that were asked
  int plans = 0;       // that were made
  int runs = 0;        // convolutions that ran
  std::vector<std::int64_t> engines_run;
  // Of the last graph: operations by pointwise mode, -1 for the convolution.
  std::vector<int> operations;
  std::string misuse;  // the first call that the library would refuse; empty: none
  int handles = 0, descriptors = 0;
  int alive() const { return handles + descriptors; }
};

FakeCudnn& fake_cudnn();

/// For CudaEnvironment.
std::shared_ptr<const runtime::Cudnn> load_fake_cudnn();

}  // namespace sinter::testing
