// SPDX-License-Identifier: Apache-2.0
// Small plans for tests of the public API.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

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

/// For each input, of such a type and width (0: [n], else [n, width]), an output NAME_out: a copy.
struct InputSpec {
  std::string name;
  DType dtype = DType::kFloat32;
  std::int64_t width = 0;
};
inline Session copying(const std::vector<InputSpec>& inputs) {
  PlanBuilder p;
  const Id n = p.symbol("n", 0);
  for (const InputSpec& spec : inputs) {
    std::vector<Id> shape = {n};
    if (spec.width > 0) shape.push_back(p.constant(spec.width));
    const Id x = p.input(spec.name, spec.dtype, shape);
    const Id y = p.output(spec.name + "_out", spec.dtype, shape);
    p.copy("copy_" + spec.name, x, y,
           p.mul(n, p.constant(std::max<std::int64_t>(spec.width, 1) *
                               static_cast<std::int64_t>(size_of(spec.dtype)))));
  }
  return Session(p.build(), on_one_thread());
}

/// The elements of an output behind a run.
template <typename T>
std::vector<T> result(Session& session, std::size_t output = 0) {
  session.run();
  const auto values = session.output(output).as<T>();
  return {values.begin(), values.end()};
}

inline void set(Session& session, const char* name, std::vector<std::int64_t> shape,
                const std::vector<float>& values) {
  session.set_input(name, std::move(shape), values);
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
