// Small plans for tests of the public API.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include <gtest/gtest.h>
#include <sinter/sinter.h>

#include "tests/runtime/plan/plan_builder.h"

namespace sinter::testing {

/// y = 2 x; both [n], of 1 to 2^20 elements of `type`, which is computed in float32.
inline PlanBuilder doubling(DType type = DType::kFloat32) {
  PlanBuilder p;
  const Id n = p.symbol("n"), one = p.constant(1), zero = p.constant(0);
  const Id x = p.input("x", type, {n});
  const Id y = p.output("y", type, {n});
  LoopBuilder loop({n}, 0);
  const Id value = loop.load(loop.access(x, zero, {one}));
  loop.store(loop.access(y, zero, {one}), loop.op(ScalarOp::kMul, {value, loop.constant(2)}));
  p.loop("double", std::move(loop));
  return p;
}

/// sum = sum + x for a state of x's shape [n].
inline PlanBuilder summing() {
  PlanBuilder p;
  const Id n = p.symbol("n"), one = p.constant(1), zero = p.constant(0);
  const Id x = p.input("x", DType::kFloat32, {n});
  const Id sum = p.state("sum", DType::kFloat32, {n});
  LoopBuilder loop({n}, 0);
  const Id at = loop.access(sum, zero, {one});
  loop.store(at, loop.op(ScalarOp::kAdd, {loop.load(at), loop.load(loop.access(x, zero, {one}))}));
  p.loop("add", std::move(loop));
  return p;
}

inline SessionOptions on_one_thread() {
  SessionOptions options;
  options.threads = 1;
  return options;
}

/// The message of the Error(kUsage) that `action` throws.
inline std::string usage_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage) << error.what();
    return error.what();
  }
  return "no error";
}

}  // namespace sinter::testing
