// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/control/control_flow.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "graphs/conditional.h"
#include "runtime/format_error.h"
#include "runtime/plan/bodies.h"

namespace sinter::runtime {
namespace {

namespace fb = plan::fb;

// The driver needs a terminating zero.
constexpr char kCounting[] =
#include "runtime/cuda/control/count_iteration.ptx.inc"
    ;
constexpr char kSetting[] =
#include "runtime/cuda/control/count_iteration.ptx.inc"
#include "runtime/cuda/control/set_condition.ptx.inc"
    ;

struct Account {
  std::uint64_t iterations = 0, overrun = 0, goes_on = 0;
};

/// Maximum nesting depth of loops and branches.
std::size_t depth_of(const fb::PlanT& meta) {
  std::vector<std::size_t> ends;  // of the open bodies
  std::size_t deepest = 0;
  for (std::size_t i = 0; i < meta.steps.size(); ++i) {
    while (!ends.empty() && ends.back() <= i) ends.pop_back();
    const fb::Work kind = meta.steps[i]->work.type;
    if (kind != fb::Work::WhileStep && kind != fb::Work::IfStep) continue;
    ends.push_back(i + 1 + plan::body_steps(meta.steps[i]->work));
    deepest = std::max(deepest, ends.size());
  }
  return deepest;
}

template <std::size_t kCount>
void launch_one(const graphs::Driver& driver, CUfunction function, CUstream stream,
                std::array<std::uint64_t, kCount> values) {
  std::array<void*, kCount> arguments;
  for (std::size_t i = 0; i < kCount; ++i) arguments[i] = &values[i];
  graphs::launch(driver, function, {}, stream, arguments.data());
}

}  // namespace

std::vector<ControlMechanism> choose_mechanisms(const fb::PlanT& meta, const BoundShape& shape,
                                                bool conditional_nodes) {
  std::vector<ControlMechanism> result;
  for (const bool is_captured : plan::captured_loops(meta, shape.steps, shape.expressions))
    result.push_back(is_captured         ? ControlMechanism::kCaptured
                     : conditional_nodes ? ControlMechanism::kConditional
                                         : ControlMechanism::kHost);
  return result;
}

ControlFlow::ControlFlow(graphs::ContextPtr context, std::int64_t max_iterations)
    : context_(std::move(context)), max_iterations_(max_iterations) {}

void ControlFlow::make(const fb::PlanT& meta, CUstream stream) {
  const std::size_t depth = depth_of(meta);
  if (depth == 0) return;
  const graphs::Context::Scope scope(*context_);
  const graphs::Driver& driver = context_->driver();
  account_ = graphs::DeviceMemory(context_, sizeof(Account));
  read_ = graphs::PinnedMemory(context_, sizeof(Account) + sizeof(bool));
  driver.memset_d8_async(account_.address(), 0, sizeof(Account), stream);
  std::memset(read_.data(), 0, sizeof(Account));
  for (std::size_t d = 0; d < depth; ++d) streams_.emplace_back(context_);
  const auto load = [&](std::span<const char> text) {
    return graphs::Module(context_, std::as_bytes(text), "that counts iterations");
  };
  if (graphs::has_conditional_nodes(driver)) try {
      setting_.emplace(load(kSetting));
      set_branch_ = setting_->function("sinter_set_branch");
      set_iteration_ = setting_->function("sinter_set_iteration");
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kDevice) throw;  // a driver that cannot resolve the function
    }
  counting_.emplace(load(kCounting));
  count_iteration_ = counting_->function("sinter_count_iteration");
}

bool ControlFlow::is_capturing(CUstream stream) const {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  context_->driver().stream_is_capturing(stream, &status);
  return status == CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

void ControlFlow::put_run(std::span<const StepLaunches> steps, CUstream stream, bool early,
                          AroundSteps* around) {
  const graphs::Driver& driver = context_->driver();
  const bool counts =
      uses(steps, ControlMechanism::kConditional) || uses(steps, ControlMechanism::kHost);
  first_ = steps.data();
  if (counts && !is_capturing(stream)) iterations_.assign(steps.size(), 0);
  if (counts) {
    driver.memset_d8_async(account_.address(), 0, sizeof(Account::iterations), stream);
    early = false;
  }
  put(steps, stream, early, 0, around);
  if (counts) driver.memcpy_dtoh_async(read_.data(), account_.address(), sizeof(Account), stream);
}

bool ControlFlow::put(std::span<const StepLaunches> steps, CUstream stream, bool early,
                      std::size_t depth, AroundSteps* around) {
  for (std::size_t i = 0; i < steps.size(); i += 1 + steps[i].body_steps()) {
    // Programmatic dependent launch needs a kernel as its immediate predecessor on the stream.
    if (around != nullptr && around->before(i, stream)) early = false;
    steps[i].launch(context_->driver(), stream, early);
    early = early || !steps[i].works.empty();
    if (steps[i].loop) early = put_loop(steps.subspan(i), stream, early, depth);
    if (steps[i].branch) {
      put_branch(steps.subspan(i), stream, depth);
      early = false;
    }
    if (around != nullptr) around->after(i, stream);
  }
  return early;
}

bool ControlFlow::put_loop(std::span<const StepLaunches> steps, CUstream stream, bool early,
                           std::size_t depth) {
  const StepLaunches& step = steps.front();
  const LoopLaunch& loop = *step.loop;
  const auto body = steps.subspan(1, loop.steps);
  if (loop.mechanism == ControlMechanism::kCaptured) {
    for (std::int64_t n = 0; n < loop.trips; ++n) {
      for (CUdeviceptr* reader : loop.readers)
        *reader = loop.counter + static_cast<std::uint64_t>(n) * sizeof(std::int64_t);
      early = put(body, stream, early, depth);
    }
    return early;
  }
  if (is_capturing(stream)) {
    const graphs::Conditional node(context_, stream);
    count(step, stream, false, node.handle());
    node.add(CU_GRAPH_COND_TYPE_WHILE, stream, body_stream(depth), [&](CUstream inner) {
      put(body, inner, false, depth + 1);
      count(step, inner, true, node.handle());
    });
    return false;
  }
  if (loop.condition == 0)
    for (std::int64_t n = 0; n < loop.trips; ++n) {
      count(step, stream, n > 0, 0);
      put_body(loop, body, stream, depth);
    }
  else
    for (bool continues = false; run_on_host(step, stream, continues); continues = true) {
      ++iterations_[static_cast<std::size_t>(&step - first_)];
      put_body(loop, body, stream, depth);
    }
  return false;
}

void ControlFlow::put_body(const LoopLaunch& loop, std::span<const StepLaunches> body,
                           CUstream stream, std::size_t depth) {
  if (loop.body)
    loop.body->launch(stream);
  else
    put(body, stream, false, depth + 1);
}

bool ControlFlow::run_on_host(const StepLaunches& step, CUstream stream, bool continues) {
  const graphs::Driver& driver = context_->driver();
  count(step, stream, continues, 0);
  driver.memcpy_dtoh_async(read_.data(), account_.address(), sizeof(Account), stream);
  driver.stream_synchronize(stream);
  Account account;
  std::memcpy(&account, read_.data(), sizeof account);
  return (account.goes_on & 0xffffffff) != 0;
}

void ControlFlow::count(const StepLaunches& step, CUstream stream, bool continues,
                        std::uint64_t node) {
  const LoopLaunch& loop = *step.loop;
  const std::array<std::uint64_t, 8> values{loop.counter,
                                            static_cast<std::uint64_t>(loop.trips),
                                            loop.condition,
                                            account_.address(),
                                            static_cast<std::uint64_t>(max_iterations_),
                                            step.index + 1,
                                            continues ? 1u : 0u,
                                            node};
  launch_one(context_->driver(), node ? set_iteration_ : count_iteration_, stream, values);
}

void ControlFlow::put_branch(std::span<const StepLaunches> steps, CUstream stream,
                             std::size_t depth) {
  const BranchLaunch& branch = *steps.front().branch;
  const auto then_steps = steps.subspan(1, branch.then_steps);
  const auto else_steps = steps.subspan(1 + branch.then_steps, branch.else_steps);
  const graphs::Driver& driver = context_->driver();
  if (!is_capturing(stream)) {
    bool is_true = false;
    std::byte* read = read_.data() + sizeof(Account);
    driver.memcpy_dtoh_async(read, branch.condition, sizeof is_true, stream);
    driver.stream_synchronize(stream);
    std::memcpy(&is_true, read, sizeof is_true);
    put(is_true ? then_steps : else_steps, stream, false, depth + 1);
    return;
  }
  // Sets both conditions first: a branch may overwrite the value that they are computed from.
  const graphs::Conditional if_true(context_, stream), if_false(context_, stream);
  launch_one<3>(driver, set_branch_, stream, {branch.condition, 1, if_true.handle()});
  launch_one<3>(driver, set_branch_, stream, {branch.condition, 0, if_false.handle()});
  const auto add = [&](const graphs::Conditional& node, std::span<const StepLaunches> body) {
    node.add(CU_GRAPH_COND_TYPE_IF, stream, body_stream(depth),
             [&](CUstream inner) { put(body, inner, false, depth + 1); });
  };
  add(if_true, then_steps);
  add(if_false, else_steps);
}

void ControlFlow::capture_bodies(std::span<StepLaunches> steps, CUstream stream) {
  first_ = steps.data();
  for (std::size_t i = 0; i < steps.size(); ++i) {
    StepLaunches& step = steps[i];
    const auto body = steps.subspan(i + 1, step.body_steps());
    if (!step.loop || step.loop->mechanism != ControlMechanism::kHost ||
        uses(body, ControlMechanism::kHost))
      continue;
    step.loop->body = std::make_shared<const graphs::GraphExec>(
        graphs::Graph::capture(context_, stream, [&](CUstream s) { put(body, s, false, 0); }));
  }
}

std::optional<std::size_t> ControlFlow::take_overrun(CUstream stream) {
  if (!read_.data()) return std::nullopt;
  Account account;
  std::memcpy(&account, read_.data(), sizeof account);
  if (account.overrun == 0) return std::nullopt;
  std::memset(read_.data(), 0, sizeof account);
  context_->driver().memset_d8_async(account_.address(), 0, sizeof account, stream);
  return account.overrun - 1;
}

}  // namespace sinter::runtime
