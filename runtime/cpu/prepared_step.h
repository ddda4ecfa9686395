// SPDX-License-Identifier: Apache-2.0
// A plan's step prepared for the sizes of a run: a kernel, or control flow.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "runtime/cpu/attention.h"
#include "runtime/cpu/gemm/matmul_dnnl.h"
#include "runtime/cpu/gemm/matmul_panels.h"
#include "runtime/cpu/gemm/quant/matmul_quant.h"
#include "runtime/cpu/host_step.h"
#include "runtime/cpu/operator_step.h"
#include "runtime/cpu/tiles/tile_program.h"

namespace sinter::runtime::cpu {

struct Copy {
  std::uint32_t source, target;
  std::size_t bytes;
};
struct While {
  std::size_t steps;   // of its body
  std::int64_t trips;  // -1: unknown
  int condition;       // buffer; -1: none
  std::uint32_t counter;
};
/// A size that a step computes during the run.
struct Extent {
  std::uint32_t buffer;
  std::optional<std::size_t> symbol;
};
struct If {
  std::uint32_t condition;
  std::size_t then_steps, else_steps;
};
using PreparedStep = std::variant<TileProgram, MatmulDnnl, MatmulPanels, MatmulQuant, ConvDnnl,
                                  CpuAttention, OperatorStep, HostStep, Copy, While, Extent, If>;

/// The step's kind in profiles: "loops", "sort", "oneDNN".
std::string kind_of(const PreparedStep& step);
/// Bytes for each thread.
std::size_t workspace_bytes(const PreparedStep& step);
/// Bytes that the step owns besides the plan's buffers.
std::uint64_t own_bytes(const PreparedStep& step);

/// For each step how many run at once from it on: 1, or 0 if it runs with those before it.
std::vector<std::size_t> joined_steps(const plan::fb::PlanT& plan,
                                      std::span<const PreparedStep> steps);

/// The context for preparing steps.
struct StepMaker {
  const plan::PlanData& plan;
  PackedWeights& weights;
  const HostOperators* operators;  // null: the plan has none
  int threads;
  std::shared_ptr<Allocator> allocator;
  const RankPlace& ranks;

  /// `shape` must be a verified shape of the plan. Throws Error(kUnsupported) if the step does not
  /// run on this CPU.
  PreparedStep make(const plan::fb::StepT& step, const BoundShape& shape) const;
};

}  // namespace sinter::runtime::cpu
