// SPDX-License-Identifier: Apache-2.0
// Graphs compiled for several ranks of the CPU, and run.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <sinter/sinter.h>

#include "fusion/context.h"
#include "ir/graph.h"
#include "runtime/plan/plan_data.h"

namespace sinter::testing {

/// `graph` whose inputs of floats and codes, but for the first and states, are constants.
ir::Graph with_constant_weights(const ir::Graph& graph, std::uint64_t seed);

struct RankedPlan {
  Plan plan;
  fusion::ShardingReport report;
  std::size_t bytes = 0;
};
/// `start`: seconds of a collective, where matrices take 1 us a byte. Throws the compiler's errors.
RankedPlan compile_for_ranks(const ir::Graph& graph, std::int64_t ranks, double start = 0);

/// Sets all inputs, runs, and returns all outputs.
std::vector<ir::Tensor> run_session(Session& session, const ir::Graph& graph,
                                    const std::vector<ir::Tensor>& inputs);

}  // namespace sinter::testing
