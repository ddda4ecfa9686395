// SPDX-License-Identifier: Apache-2.0
// An engine of the fake cuDNN.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include <cudnn_graph.h>

namespace sinter::testing {

struct FakeEngine {
  std::int64_t id = 0;
  std::vector<std::pair<std::int64_t, std::int64_t>> knobs;
  std::vector<cudnnBackendNumericalNote_t> notes;
  double microseconds = 10;  // on the fake driver's clock
  std::int64_t workspace = 0;
  bool is_compiled = false;
  bool builds = true;                              // false: no execution plan can be made of it
  cudnnStatus_t execution = CUDNN_STATUS_SUCCESS;  // of running it
  // The heuristic that proposes it; COUNT: none, it is found among all engines alone.
  cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
};

}  // namespace sinter::testing
