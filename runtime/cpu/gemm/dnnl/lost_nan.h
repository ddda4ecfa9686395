// SPDX-License-Identifier: Apache-2.0
// NaN that oneDNN's activations lose: found at no cost, and put back.
#pragma once

#include <dnnl.hpp>
#include <functional>
#include <mutex>
#include <span>

#include "runtime/plan/plan_data.h"

namespace sinter::runtime::cpu {

/// True if some kernel of oneDNN's makes a number of NaN at the end: it clamps, and x86's maxima
/// and minima return their second operand, the bound, if one is NaN. `a`: the first parameter.
bool loses_nan(plan::fb::Activation activation, float a);

/// The processor's flag of invalid operations while this lives. What makes NaN raises it, and so
/// does a maximum, minimum or comparison of oneDNN's that reads one: not raised, no NaN was lost.
class InvalidFlag {
 public:
  InvalidFlag();
  ~InvalidFlag();  // what was set before is set again
  InvalidFlag(const InvalidFlag&) = delete;
  InvalidFlag& operator=(const InvalidFlag&) = delete;
  /// Always true where processors tell nothing.
  bool is_raised() const;

 private:
  unsigned before_ = 0;
};

/// A primitive's twin that ends without the activation, shared by all parts of its kind. It is made
/// when NaN first occurs.
class BarePrimitive {
 public:
  struct Made {
    dnnl::primitive primitive;
    dnnl::memory::desc scratchpad;
  };
  explicit BarePrimitive(std::function<Made()> make) : make_(std::move(make)) {}

  /// Executes it with `arguments`, but for result and scratchpad, which are its own, and copies
  /// what is NaN of its result to `result`, which is of `layout`.
  void restore_nan(std::span<const dnnl_exec_arg_t> arguments, const dnnl::memory::desc& layout,
                   void* result);

 private:
  std::function<Made()> make_;
  std::once_flag once_;
  Made made_;
};

}  // namespace sinter::runtime::cpu
