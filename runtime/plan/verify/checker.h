// SPDX-License-Identifier: Apache-2.0
// Shared by the verifier's files: the plan and functions that report what is wrong with it.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include <sinter/dtype.h>

#include "runtime/format_error.h"
#include "runtime/plan/plan_data.h"

namespace sinter::plan {

/// Maximum rank of a loop nest, a binding or a GEMM: far above any model's. It bounds the work that
/// a malicious plan can cause.
inline constexpr std::size_t kMaxRank = 32;

using Buffers = std::set<std::uint32_t>;

/// The buffers that a step's work uses, to be compared with the step's declaration.
struct Uses {
  Buffers reads, writes;
};

class Checker {
 public:
  explicit Checker(const fb::PlanT& plan) : plan(plan) {}

  const fb::PlanT& plan;
  /// The element being checked: "step 3 'matmul_0'".
  std::string where;
  /// The run's dimensions, "batch=1, sequence=64". If set, errors are attributed to them, else to
  /// the plan.
  std::string dimensions;

  template <typename... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) const {
    if (!dimensions.empty())
      throw usage_error(
          "the plan cannot run for {}: {}{}{}: give other "
          "dimensions, or compile the model for these",
          dimensions, where, where.empty() ? "" : ": ",
          fmt::format(format, std::forward<Args>(args)...));
    throw invalid_plan_error(
        "invalid plan: {}{}{}; the file is damaged or was not made by Sinter's "
        "compiler: recompile the model",
        where, where.empty() ? "" : ": ", fmt::format(format, std::forward<Args>(args)...));
  }

  void index(std::uint64_t value, std::size_t count, const char* what, const char* table) const {
    if (value >= count) fail("{} is {}, but there are {} {}", what, value, count, table);
  }
  void expression(std::uint32_t value, const char* what) const {
    index(value, plan.expressions.size(), what, "expressions");
  }
  void expressions(const std::vector<std::uint32_t>& values, const char* what) const {
    for (const std::uint32_t value : values) expression(value, what);
  }
  const fb::BufferT& buffer(std::uint64_t value, const char* what) const {
    index(value, plan.buffers.size(), what, "buffers");
    return *plan.buffers[value];
  }
  DType dtype(std::uint8_t value, const char* what) const {
    if (value >= kDTypeCount) fail("{} has element type {}, which does not exist", what, value);
    return static_cast<DType>(value);
  }
  void rank(std::size_t value, const char* what) const {
    if (value > kMaxRank) fail("{} has {} dimensions, more than {}", what, value, kMaxRank);
  }
  template <typename Enum>
  void in_range(Enum value, Enum max, const char* what) const {
    if (value > max)
      fail("{} is {}, but the largest known value is {}", what, static_cast<std::uint64_t>(value),
           static_cast<std::uint64_t>(max));
  }
};

/// Checks one loop program; `program.buffers` must be verified indices of buffers.
void verify_loop_program(const Checker& check, const fb::LoopProgramT& program);
/// Checks the work of every step, and that its buffers are declared and alive.
void verify_steps(Checker& check);
struct BlobSizes;
/// What each rank has, in a plan whose tables and steps are verified.
void verify_ranks(Checker& check, const BlobSizes& blobs);

}  // namespace sinter::plan
