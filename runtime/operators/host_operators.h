// SPDX-License-Identifier: Apache-2.0
// Host operators of a plan: found in libraries, and called.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <sinter/operators.h>

#include "runtime/plan/plan_data.h"

namespace sinter::runtime {

/// The operators of some libraries; of two with one name the first library's.
class HostOperators {
 public:
  explicit HostOperators(std::vector<OperatorLibrary> libraries);

  const std::vector<OperatorLibrary>& libraries() const { return libraries_; }
  /// Null if no library has it.
  const sinter_operator* find(std::string_view name) const;
  /// Throws Error(kUsage) naming every operator of the plan that no library has, or of which none
  /// has a function for the plan's target.
  void check(const plan::fb::PlanT& plan) const;

 private:
  std::vector<OperatorLibrary> libraries_;
};

/// A HostStep with its sizes bound. It may be moved.
class HostCall {
 public:
  /// `expressions`: values of the plan's. Throws Error(kUsage) if the operator's own sizes differ
  /// from the plan's, Error(kDevice) if its functions fail. `operators` have been checked and
  /// outlive the call.
  HostCall(const plan::fb::PlanT& plan, const plan::fb::HostStepT& step,
           std::span<const std::int64_t> expressions, const HostOperators& operators);
  ~HostCall();
  HostCall(HostCall&&) noexcept;

  /// What the operator asks for.
  std::size_t workspace_bytes() const;
  /// Addresses by number of the plan's buffer; `workspace` is of workspace_bytes().
  void bind(std::span<std::byte* const> buffers, void* workspace);
  /// Throws Error(kDevice) with what the function says.
  void run(int threads) const;
  void enqueue(void* stream) const;
  /// Addresses of inputs that lie in `buffer`, to be changed before a call.
  std::vector<void**> readers(std::uint32_t buffer);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sinter::runtime
