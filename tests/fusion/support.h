// SPDX-License-Identifier: Apache-2.0
// What the tests of fusion share.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "fusion/pipeline.h"
#include "ir/graph.h"
#include "ir/tensor.h"

namespace sinter::fusion::test {

/// Every symbol of `graph` as a small size within its range, different ones for different symbols.
ir::Bindings small_sizes(const ir::Graph& graph);
/// Seeded inputs of those sizes: normal deviates, integers 0 and 1.
std::vector<ir::Tensor> random_inputs(const ir::Graph& graph, std::uint64_t seed);
/// So many samples of random_inputs; graphs run by reference evaluation.
std::shared_ptr<Calibration> random_calibration(const ir::Graph& graph, int samples);
/// The largest difference of two results, relative to the largest value but at least to a
/// thousandth, as a result that cancels as a whole is rounding errors of larger values; infinity if
/// a NaN, a type or a shape differs.
double relative_error(const ir::Tensor& found, const ir::Tensor& expected);
/// EXPECTs that both graphs compute the same from random inputs, and both are valid.
void expect_equivalent(const ir::Graph& before, const ir::Graph& after, double tolerance,
                       std::uint64_t seed = 1);

/// A machine on which sharing the work of a tiny graph pays, as memory is slow: a collective takes
/// `start` seconds, and 1 MB a second of memory.
ShardingOptions ranks_of_slow_devices(std::int64_t ranks, double start = 0);
/// EXPECTs that the ranks of `after` together compute what `before` does, as `report` says of
/// states, and all of them alike.
void expect_equivalent_ranks(const ir::Graph& before, const ir::Graph& after,
                             const ShardingReport& report, double tolerance,
                             std::uint64_t seed = 1);

/// run_pipeline, which checks every fact.
PipelineResult run_checked(const ir::Graph& graph, Context& context, PipelineOptions options = {});

/// Runs the pass called `name` alone.
ir::Graph run_pass(std::string_view name, const ir::Graph& graph, Context& context);

/// EXPECTs what codegen relies on: fused nodes and reshapes only, families within their contract.
void expect_fused(const ir::Graph& graph);

}  // namespace sinter::fusion::test
