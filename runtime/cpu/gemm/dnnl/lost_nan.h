// SPDX-License-Identifier: Apache-2.0
// Restores NaN that oneDNN's activations lose. Detection is free.
#pragma once

#include <dnnl.hpp>
#include <functional>
#include <mutex>
#include <span>

#include "runtime/plan/plan_data.h"

namespace sinter::runtime::cpu {

/// True if some oneDNN kernel of this activation turns NaN into a number. x86's max and min return
/// their second operand (the bound) if one is NaN. `a`: the first parameter.
bool loses_nan(plan::fb::Activation activation, float a);

/// Watches the CPU's invalid-operation flag during its lifetime. Operations that create NaN raise
/// it, and so do oneDNN's max, min and comparisons that read NaN. If it is not raised, no NaN was
/// lost.
class InvalidFlag {
 public:
  InvalidFlag();
  ~InvalidFlag();  // restores the previous flag
  InvalidFlag(const InvalidFlag&) = delete;
  InvalidFlag& operator=(const InvalidFlag&) = delete;
  /// Always true on CPUs where the flag is not read.
  bool is_raised() const;

 private:
  unsigned before_ = 0;
};

/// The same primitive without the activation, shared by all parts of a kind. Created when NaN first
/// occurs.
class BarePrimitive {
 public:
  struct Made {
    dnnl::primitive primitive;
    dnnl::memory::desc scratchpad;
  };
  explicit BarePrimitive(std::function<Made()> make) : make_(std::move(make)) {}

  /// Executes it with `arguments`, except that result and scratchpad are its own. Then copies the
  /// NaNs of its result to `result`, of layout `layout`.
  void restore_nan(std::span<const dnnl_exec_arg_t> arguments, const dnnl::memory::desc& layout,
                   void* result);

 private:
  std::function<Made()> make_;
  std::once_flag once_;
  Made made_;
};

}  // namespace sinter::runtime::cpu
