// SPDX-License-Identifier: Apache-2.0
// A step of a plan made ready for the sizes of a run: what computes it, or what it says of others.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "runtime/cpu/attention.h"
#include "runtime/cpu/gemm/matmul_dnnl.h"
#include "runtime/cpu/gemm/matmul_panels.h"
#include "runtime/cpu/gemm/matmul_quant.h"
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
  std::int64_t trips;  // -1: any number
  int condition;       // buffer; -1: none
  std::uint32_t counter;
};
/// A size that the run finds.
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

/// "loops", "sort", "oneDNN": what profiles call it.
std::string kind_of(const PreparedStep& step);
/// Bytes that each thread needs for it.
std::size_t workspace_bytes(const PreparedStep& step);
/// Bytes that it keeps beside the plan's buffers.
std::uint64_t own_bytes(const PreparedStep& step);

/// What steps are made of and for.
struct StepMaker {
  const plan::PlanData& plan;
  PackedWeights& weights;
  const HostOperators* operators;  // null: the plan has none
  int threads;
  std::shared_ptr<Allocator> allocator;

  /// `shape` belongs to the plan and is checked. Throws Error(kUnsupported) if the step does not
  /// run on this processor.
  PreparedStep make(const plan::fb::StepT& step, const BoundShape& shape) const;
};

}  // namespace sinter::runtime::cpu
