// SPDX-License-Identifier: Apache-2.0
// Verifies the tables to which steps refer: symbols, expressions, buffers, bindings, states,
// modules.
#include "runtime/plan/verify/verify_plan.h"

#include <array>
#include <set>

#include "runtime/plan/expressions.h"
#include "runtime/plan/extents.h"
#include "runtime/plan/ranks/peer_memory.h"
#include "runtime/plan/serving.h"
#include "runtime/plan/verify/checker.h"

namespace sinter::plan {
namespace {

void verify_symbols(const Checker& check) {
  std::set<std::string_view> names;
  for (const auto& symbol : check.plan.symbols) {
    if (symbol->name.empty() || !names.insert(symbol->name).second)
      check.fail("the symbol name '{}' is empty or occurs twice", symbol->name);
    if (symbol->min < 0 || symbol->min > symbol->max)
      check.fail("symbol '{}' has the range [{}, {}]", symbol->name, symbol->min, symbol->max);
  }
}

void verify_expressions(Checker& check) {
  for (std::size_t i = 0; i < check.plan.expressions.size(); ++i) {
    check.where = fmt::format("expression {}", i);
    const fb::ExprNode& node = check.plan.expressions[i];
    check.in_range(node.op(), fb::ExprOp::MAX, "its operator");
    if (node.op() == fb::ExprOp::Constant) continue;
    if (node.op() == fb::ExprOp::Symbol) {
      check.index(node.a(), check.plan.symbols.size(), "its symbol", "symbols");
    } else {
      check.index(node.a(), i, "its first operand", "expressions before it");
      check.index(node.b(), i, "its second operand", "expressions before it");
    }
  }
  check.where.clear();
}

/// Buffers of a state's input and output.
std::array<std::uint32_t, 2> state_buffers(const Checker& check, const fb::StateT& state) {
  check.index(state.input, check.plan.inputs.size(), "a state's input", "inputs");
  check.index(state.output, check.plan.outputs.size(), "a state's output", "outputs");
  return {check.plan.inputs[state.input]->buffer, check.plan.outputs[state.output]->buffer};
}

void verify_peers(const Checker& check, const fb::BufferT& buffer) {
  const fb::ExprNode& size = check.plan.expressions[buffer.bytes];
  if (check.plan.ranks < 2 || check.plan.target != "cuda" || size.op() != fb::ExprOp::Constant ||
      size.value() != static_cast<std::int64_t>(sizeof(PeerTable)))
    check.fail("it is how ranks on GPUs meet, which has {} bytes, in a plan of several",
               sizeof(PeerTable));
}

void verify_buffers(Checker& check, const BlobSizes& blobs) {
  const fb::PlanT& plan = check.plan;
  const std::vector<bool> from_data = expressions_from_data(plan);
  std::set<std::uint32_t> places;
  for (std::size_t i = 0; i < plan.buffers.size(); ++i) {
    check.where = fmt::format("buffer {}", i);
    const fb::BufferT& buffer = *plan.buffers[i];
    if (buffer.kind != kPeersBuffer) check.in_range(buffer.kind, fb::BufferKind::MAX, "its kind");
    check.dtype(buffer.dtype, "it");
    check.expression(buffer.bytes, "its size");
    if (from_data[buffer.bytes]) check.fail("its size depends on data");
    if (buffer.kind == kPeersBuffer) verify_peers(check, buffer);
    switch (buffer.kind) {
      case fb::BufferKind::Input:
        check.index(buffer.binding, plan.inputs.size(), "its binding", "inputs");
        if (plan.inputs[buffer.binding]->buffer != i)
          check.fail("input {} belongs to buffer {}", buffer.binding,
                     plan.inputs[buffer.binding]->buffer);
        break;
      case fb::BufferKind::Output:
        check.index(buffer.binding, plan.outputs.size(), "its binding", "outputs");
        if (plan.outputs[buffer.binding]->buffer != i)
          check.fail("output {} belongs to buffer {}", buffer.binding,
                     plan.outputs[buffer.binding]->buffer);
        break;
      case fb::BufferKind::State:
        check.index(buffer.binding, plan.states.size(), "its state", "states");
        for (const std::uint32_t bound : state_buffers(check, *plan.states[buffer.binding]))
          if (bound != i) check.fail("state {} belongs to buffer {}", buffer.binding, bound);
        break;
      case fb::BufferKind::Weight: {
        const fb::ExprNode& size = plan.expressions[buffer.bytes];
        if (size.op() != fb::ExprOp::Constant || size.value() < 0)
          check.fail("a weight's size must be a constant that is not negative");
        const auto bytes = static_cast<std::uint64_t>(size.value());
        if (buffer.weight_offset % kWeightAlignment != 0 || buffer.weight_offset > blobs.weights ||
            bytes > blobs.weights - buffer.weight_offset)
          check.fail("its {} bytes at {} are misaligned or outside the {} bytes of weights", bytes,
                     buffer.weight_offset, blobs.weights);
        break;
      }
      case fb::BufferKind::Arena:
        check.index(buffer.last_step, plan.steps.size(), "its last step", "steps");
        if (buffer.first_step > buffer.last_step)
          check.fail("it lives from step {} to step {}", buffer.first_step, buffer.last_step);
        break;
      case fb::BufferKind::Extent: {
        check.index(buffer.binding, count_extents(plan), "its place", "extents");
        const fb::ExprNode& size = plan.expressions[buffer.bytes];
        if (static_cast<DType>(buffer.dtype) != DType::kInt64 ||
            size.op() != fb::ExprOp::Constant || size.value() != 8)
          check.fail("an extent must be one i64");
        if (!places.insert(buffer.binding).second)
          check.fail("two extents have the place {}", buffer.binding);
        break;
      }
    }
  }
  check.where.clear();
}

/// Whether binding `i` (input or output, as `kind` says) belongs to the state of `buffer`.
bool is_of_state(const Checker& check, const fb::BufferT& buffer, fb::BufferKind kind,
                 std::size_t i) {
  if (buffer.kind != fb::BufferKind::State) return false;
  const fb::StateT& state = *check.plan.states[buffer.binding];
  return (kind == fb::BufferKind::Input ? state.input : state.output) == i;
}

void verify_bindings(Checker& check, const char* what, fb::BufferKind kind,
                     const std::vector<std::unique_ptr<fb::BindingT>>& bindings) {
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < bindings.size(); ++i) {
    const fb::BindingT& binding = *bindings[i];
    check.where = fmt::format("{} '{}'", what, binding.name);
    if (!names.insert(binding.name).second) check.fail("the name occurs twice");
    const DType dtype = check.dtype(binding.dtype, "it");
    const fb::BufferT& buffer = check.buffer(binding.buffer, "its buffer");
    const bool own =
        buffer.kind == kind ? buffer.binding == i : is_of_state(check, buffer, kind, i);
    if (!own || buffer.dtype != binding.dtype)
      check.fail("buffer {} is not the {}'s buffer of type {}", binding.buffer, what,
                 to_string(dtype));
    check.rank(binding.shape.size(), "its shape");
    check.expressions(binding.shape, "a dimension");
    if (kind != fb::BufferKind::Input) continue;
    for (const std::uint32_t dim : binding.shape) {
      const fb::ExprNode& node = check.plan.expressions[dim];
      if (node.op() == fb::ExprOp::Constant && node.value() < 0)
        check.fail("it has the dimension {}", node.value());
    }
  }
  check.where.clear();
}

/// Checks symbols whose values steps determine; shapes of inputs (`of_inputs`) must not use them.
void verify_extents(const Checker& check, const std::vector<bool>& of_inputs,
                    std::vector<bool>& bound) {
  const fb::PlanT& plan = check.plan;
  const std::vector<bool> from_data = expressions_from_data(plan);
  for (std::size_t i = 0; i < of_inputs.size(); ++i)
    if (of_inputs[i] && from_data[i]) check.fail("the shape of an input depends on data");
  std::set<std::int32_t> buffers;
  for (std::size_t s = 0; s < bound.size(); ++s) {
    const fb::SymbolT& symbol = *plan.symbols[s];
    if (symbol.extent_of == -1) continue;
    const fb::BufferT& buffer =
        check.buffer(static_cast<std::uint32_t>(symbol.extent_of), "its buffer");
    if (buffer.kind != fb::BufferKind::Extent || !buffers.insert(symbol.extent_of).second ||
        symbol.value_of != -1)
      check.fail("symbol '{}' is not the number of an extent of its own", symbol.name);
    check.expression(static_cast<std::uint32_t>(symbol.bound), "its bound");
    if (from_data[static_cast<std::size_t>(symbol.bound)])
      check.fail("the bound of symbol '{}' depends on data", symbol.name);
    bound[s] = true;
  }
}

/// Checks a symbol that counts the tokens of an input.
void verify_tokens(const Checker& check, const fb::SymbolT& symbol) {
  const auto input = static_cast<std::uint32_t>(symbol.tokens_of);
  check.index(input, check.plan.inputs.size(), "what it counts", "inputs");
  const fb::BindingT& binding = *check.plan.inputs[input];
  if (binding.shape.size() != 2)
    check.fail("symbol '{}' counts the tokens of input '{}', which is no mask [batch, sequence]",
               symbol.name, binding.name);
  if (symbol.value_of != -1 || symbol.extent_of != -1)
    check.fail("symbol '{}' counts tokens and is another value, too", symbol.name);
  if (check.plan.buffers[binding.buffer]->kind != fb::BufferKind::Input)
    check.fail("symbol '{}' counts the tokens of state '{}'", symbol.name, binding.name);
}

/// Checks that a session can derive all symbols from the shapes of its inputs.
void verify_symbols_are_bound(const Checker& check) {
  // A session solves each dimension that is an expression separately, at the cost of evaluating the
  // whole table.
  constexpr std::size_t kMostExpressions = 256;
  std::vector<bool> needed(check.plan.expressions.size(), false);
  std::size_t expressions = 0;
  for (const auto& input : check.plan.inputs)
    for (const std::uint32_t dim : input->shape) {
      const fb::ExprOp op = check.plan.expressions[dim].op();
      if (op != fb::ExprOp::Symbol && op != fb::ExprOp::Constant) ++expressions;
      needed[dim] = true;
    }
  if (expressions > kMostExpressions)
    check.fail("{} dimensions of inputs are expressions, more than {}", expressions,
               kMostExpressions);
  std::vector<bool> bound(check.plan.symbols.size(), false);
  for (std::size_t s = 0; s < bound.size(); ++s) {
    const fb::SymbolT& symbol = *check.plan.symbols[s];
    if (symbol.is_rank) bound[s] = true;
    if (symbol.tokens_of != -1) {
      verify_tokens(check, symbol);
      bound[s] = true;
      continue;
    }
    if (symbol.value_of == -1) continue;
    const auto input = static_cast<std::uint32_t>(symbol.value_of);
    check.index(input, check.plan.inputs.size(), "its value", "inputs");
    const fb::BindingT& binding = *check.plan.inputs[input];
    const bool is_one = std::ranges::all_of(binding.shape, [&](std::uint32_t dim) {
      const fb::ExprNode& node = check.plan.expressions[dim];
      return node.op() == fb::ExprOp::Constant && node.value() == 1;
    });
    const auto dtype = static_cast<DType>(binding.dtype);
    if (!is_one || is_float(dtype))
      check.fail("symbol '{}' is the value of input '{}', which is not one integer", symbol.name,
                 binding.name);
    // warm_up prepares all of these values.
    constexpr std::int64_t kMostValues = 256;
    if (symbol.max >= kMostValues)
      check.fail("symbol '{}' is the value of an input and in {} to {}, beyond {}", symbol.name,
                 symbol.min, symbol.max, kMostValues);
    bound[s] = true;
  }
  verify_extents(check, needed, bound);
  for (std::size_t i = needed.size(); i-- > 0;) {
    const fb::ExprNode& node = check.plan.expressions[i];
    if (!needed[i] || node.op() == fb::ExprOp::Constant) continue;
    if (node.op() == fb::ExprOp::Symbol)
      bound[node.a()] = true;
    else
      needed[node.a()] = needed[node.b()] = true;
  }
  for (std::size_t i = 0; i < bound.size(); ++i)
    if (!bound[i])
      check.fail("symbol '{}' is in no input's dimension, so it can have no value",
                 check.plan.symbols[i]->name);
}

void verify_states(const Checker& check) {
  const fb::PlanT& plan = check.plan;
  for (std::size_t s = 0; s < plan.states.size(); ++s) {
    const auto [input, output] = state_buffers(check, *plan.states[s]);
    const fb::BindingT& before = *plan.inputs[plan.states[s]->input];
    const fb::BindingT& after = *plan.outputs[plan.states[s]->output];
    const fb::BufferT& buffer = *plan.buffers[input];
    if (input != output || buffer.kind != fb::BufferKind::State || buffer.binding != s)
      check.fail("output '{}' and input '{}' are no state: they lie in buffers {} and {}",
                 after.name, before.name, output, input);
    if (before.shape != after.shape)
      check.fail("the state from output '{}' to input '{}' changes its shape", after.name,
                 before.name);
  }
}

void verify_modules(Checker& check, const BlobSizes& blobs) {
  for (std::size_t i = 0; i < check.plan.modules.size(); ++i) {
    const fb::ModuleT& module = *check.plan.modules[i];
    check.where = fmt::format("module {} '{}'", i, module.name);
    if (module.offset > blobs.modules || module.size > blobs.modules - module.offset)
      check.fail("its {} bytes at {} are outside the {} bytes of modules", module.size,
                 module.offset, blobs.modules);
    if (module.source_offset > blobs.sources ||
        module.source_size > blobs.sources - module.source_offset)
      check.fail("the {} bytes of its source at {} are outside the {} bytes of sources",
                 module.source_size, module.source_offset, blobs.sources);
  }
  check.where.clear();
}

}  // namespace

void verify_plan(const fb::PlanT& plan, const BlobSizes& blobs) {
  Checker check(plan);
  if (plan.target != "cpu" && plan.target != "cuda")
    check.fail("its target is '{}'; this library knows 'cpu' and 'cuda'", plan.target);
  verify_symbols(check);
  verify_expressions(check);
  verify_buffers(check, blobs);
  verify_bindings(check, "input", fb::BufferKind::Input, plan.inputs);
  verify_bindings(check, "output", fb::BufferKind::Output, plan.outputs);
  verify_symbols_are_bound(check);
  verify_states(check);
  verify_modules(check, blobs);
  verify_steps(check);
  verify_ranks(check, blobs);
  if (is_serving(plan)) serving_of(plan);
}

}  // namespace sinter::plan
