// SPDX-License-Identifier: Apache-2.0
// Verifies steps in order: their buffers are declared, alive and written before they are read. Also
// bodies and entry points.
#include <algorithm>
#include <set>
#include <utility>

#include "runtime/plan/extents.h"
#include "runtime/plan/ranks/peer_memory.h"
#include "runtime/plan/verify/verify_work.h"

namespace sinter::plan {
namespace {

void verify_alive(const Checker& check, std::uint32_t index, std::size_t step) {
  const fb::BufferT& buffer = check.buffer(index, "a buffer it uses");
  if (buffer.kind == fb::BufferKind::Arena && (step < buffer.first_step || step > buffer.last_step))
    check.fail("it uses buffer {}, which lives from step {} to step {}", index, buffer.first_step,
               buffer.last_step);
}

/// The enclosing loop and branch bodies of a step, outermost first.
class OpenBodies {
 public:
  /// `written`: buffers that are certainly written so far, on all branches.
  OpenBodies(const Checker& check, Buffers& written) : check_(check), written_(written) {}

  /// Closes the bodies that end before `step`.
  void leave(std::size_t step) {
    while (!open_.empty() && step > open_.back().last) close();
  }

  void begin(std::size_t step, std::size_t end_of_entry) {
    const fb::StepT& own = *check_.plan.steps[step];
    const fb::WhileStepT* loop = own.work.AsWhileStep();
    const fb::IfStepT* branch = own.work.AsIfStep();
    if (!loop && !branch) return;
    constexpr std::size_t kDeepest = 16;
    const std::size_t left = (open_.empty() ? end_of_entry : open_.back().last + 1) - step - 1;
    const std::size_t first = loop ? loop->steps : branch->then_steps;
    const std::size_t second = loop ? 0 : branch->else_steps;
    if (first > left || second > left - first)
      check_.fail("its bodies have {} steps, but {} follow it", first + second, left);
    if (open_.size() == kDeepest) check_.fail("it lies in more than {} bodies", kDeepest);
    const std::size_t end = step + first + second;
    open_.push_back({step, step + first, step, end, branch ? &own : nullptr, false, written_, {}});
    for (const auto* list : {&own.reads, &own.writes})
      for (const std::uint32_t buffer : *list) verify_alive(check_, buffer, end);
  }

  /// A buffer that is used both inside and outside of a loop or branch must live through all of it.
  void verify_use(std::uint32_t index) const {
    const fb::BufferT& buffer = *check_.plan.buffers[index];
    if (buffer.kind != fb::BufferKind::Arena) return;
    for (const Body& body : open_) {
      const bool within = buffer.first_step > body.first && buffer.last_step <= body.last;
      const bool around = buffer.first_step <= body.step && buffer.last_step >= body.end;
      if (!within && !around)
        check_.fail(
            "it uses buffer {}, which lives from step {} to step {}, in the body of steps {} "
            "to {}",
            index, buffer.first_step, buffer.last_step, body.first + 1, body.last);
    }
  }

 private:
  struct Body {
    std::size_t first, last;  // the body is the steps after `first` up to `last`
    std::size_t step, end;    // the loop or branch step, and the last step of all its bodies
    const fb::StepT* branch;  // null for a loop
    bool is_else;
    Buffers before, in_then;  // written before the branches, and by the end of the first
  };

  void close() {
    Body body = std::move(open_.back());
    open_.pop_back();
    if (!body.branch) return;
    if (!body.is_else) {
      Buffers in_then = std::exchange(written_, body.before);
      open_.push_back({body.last, body.end, body.step, body.end, body.branch, true,
                       std::move(body.before), std::move(in_then)});
      return;
    }
    for (const std::uint32_t buffer : body.branch->writes)
      if (!written_.contains(buffer) || !body.in_then.contains(buffer))
        check_.fail("a branch of step '{}' does not write buffer {}", body.branch->name, buffer);
    std::erase_if(written_, [&](std::uint32_t buffer) { return !body.in_then.contains(buffer); });
  }

  const Checker& check_;
  Buffers& written_;
  std::vector<Body> open_;
};

void verify_outputs_written(const Checker& check, const Buffers& written) {
  for (const auto& output : check.plan.outputs)
    if (check.plan.buffers[output->buffer]->kind == fb::BufferKind::Output &&
        !written.contains(output->buffer))
      check.fail("no step writes the output '{}'", output->name);
}

/// Entry points are consecutive ranges of steps; returns the ends of the ranges.
std::vector<std::size_t> verify_entries(Checker& check) {
  const fb::PlanT& plan = check.plan;
  std::vector<std::size_t> ends;
  std::set<std::string_view> names;
  std::size_t next = 0;
  for (const auto& entry : plan.entries) {
    check.where = fmt::format("entry point '{}'", entry->name);
    if (entry->name.empty() || !names.insert(entry->name).second)
      check.fail("its name is empty or occurs twice");
    for (const fb::Limit& limit : entry->limits) {
      check.index(limit.symbol(), plan.symbols.size(), "a limit's symbol", "symbols");
      if (limit.min() > limit.max())
        check.fail("it has the limits [{}, {}]", limit.min(), limit.max());
    }
    if (entry->first_step != next || entry->step_count > plan.steps.size() - next)
      check.fail("its {} steps from {} on do not follow the {} before them, of {}",
                 entry->step_count, entry->first_step, next, plan.steps.size());
    next += entry->step_count;
    ends.push_back(next);
  }
  check.where.clear();
  if (!plan.entries.empty() && next != plan.steps.size())
    check.fail("its entry points have {} of its {} steps", next, plan.steps.size());
  if (ends.empty()) ends.push_back(plan.steps.size());
  return ends;
}

}  // namespace

void verify_steps(Checker& check) {
  const fb::PlanT& plan = check.plan;
  const std::vector<std::size_t> ends = verify_entries(check);
  Buffers written;
  auto end = ends.begin();
  OpenBodies bodies(check, written);
  const std::vector<bool> from_data = expressions_from_data(plan);
  const auto end_entries = [&](std::size_t step) {
    bodies.leave(step);
    for (; end != ends.end() && *end == step; ++end) {
      verify_outputs_written(check, written);
      written.clear();
    }
  };
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    end_entries(i);
    const fb::StepT& step = *plan.steps[i];
    check.where = fmt::format("step {} '{}'", i, step.name);
    check.expression(step.bytes_read, "the number of bytes it reads");
    check.expression(step.bytes_written, "the number of bytes it writes");
    check.expression(step.flops, "its number of operations");
    check.in_range(step.arithmetic, fb::Arithmetic::MAX, "its arithmetic");
    if (step.work.type == fb::Work::ConvStep && plan.target == "cuda")
      check.fail("a convolution on target 'cuda' must be one of a choice's tactics");
    const Uses uses = verify_work(check, step, step.work);
    bodies.begin(i, *end);
    if (plan.target == "cuda")
      for_each_expression(step, [&](std::uint32_t expression) {
        if (from_data[expression])
          check.fail("a size that its kernels find on the GPU is asked of the host");
      });

    const Buffers reads(step.reads.begin(), step.reads.end());
    const Buffers writes(step.writes.begin(), step.writes.end());
    for (const std::uint32_t buffer : reads) {
      verify_alive(check, buffer, i);
      bodies.verify_use(buffer);
      const fb::BufferKind kind = plan.buffers[buffer]->kind;
      if ((kind == fb::BufferKind::Arena || kind == fb::BufferKind::Output ||
           kind == fb::BufferKind::Extent) &&
          !written.contains(buffer))
        check.fail("it reads buffer {}, which no step before it has written", buffer);
    }
    for (const std::uint32_t buffer : writes) {
      verify_alive(check, buffer, i);
      bodies.verify_use(buffer);
      const fb::BufferKind kind = plan.buffers[buffer]->kind;
      if (kind != fb::BufferKind::Arena && kind != fb::BufferKind::Output &&
          kind != fb::BufferKind::State && kind != fb::BufferKind::Extent && kind != kPeersBuffer)
        check.fail("it writes buffer {}, which is an {}", buffer, fb::EnumNameBufferKind(kind));
    }
    for (const std::uint32_t buffer : uses.reads)
      if (!reads.contains(buffer)) check.fail("it reads buffer {} undeclared", buffer);
    for (const std::uint32_t buffer : uses.writes)
      if (!writes.contains(buffer)) check.fail("it writes buffer {} undeclared", buffer);
    // The bodies of a branch do the writes of its step.
    if (step.work.type != fb::Work::IfStep) written.insert(writes.begin(), writes.end());
  }
  check.where.clear();
  end_entries(plan.steps.size());
}

}  // namespace sinter::plan
