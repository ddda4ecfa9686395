// SPDX-License-Identifier: Apache-2.0
#include <iterator>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "codegen/program/loop_lowering.h"
#include "runtime/plan/loop_values.h"

namespace sinter::codegen {
namespace {

class Printer {
 public:
  Printer(const LoopProgramT& program, const ExprTable& exprs) : program_(program), exprs_(exprs) {}

  std::string print() {
    const std::size_t outer = program_.extents.size() - program_.inner_dims;
    fmt::format_to(out(), "loops ({})", extents(0, outer));
    if (program_.inner_dims > 0)
      fmt::format_to(out(), " row ({})", extents(outer, program_.extents.size()));
    fmt::format_to(out(), " buffers ({})\n", fmt::join(program_.buffers, ", "));
    for (std::size_t i = 0; i < program_.instrs.size(); ++i) print(i, *program_.instrs[i]);
    return std::move(text_);
  }

 private:
  std::back_insert_iterator<std::string> out() { return std::back_inserter(text_); }

  std::string extents(std::size_t begin, std::size_t end) {
    std::string result;
    for (std::size_t d = begin; d < end; ++d)
      result += fmt::format("{}i{} < {}", d > begin ? ", " : "", d,
                            exprs_.dim(program_.extents[d]).to_string());
    return result;
  }

  void print(std::size_t i, const InstrT& instr) {
    const std::string_view type = to_string(static_cast<DType>(instr.dtype));
    if (instr.kind == InstrKind::Store) {
      fmt::format_to(out(), "  store {} {} = %{}\n", type, access(instr.access), instr.args[0]);
      return;
    }
    if (instr.kind == InstrKind::Scatter) {
      const bool replaces = instr.op == plan::kScatterReplaces;
      fmt::format_to(out(), "  scatter{} {} {} = %{}\n",
                     replaces ? "" : fmt::format("_{}", to_string(static_cast<Combine>(instr.op))),
                     type, access(instr.access), instr.args[0]);
      return;
    }
    fmt::format_to(out(), "  %{} = ", i);
    switch (instr.kind) {
      case InstrKind::Load: fmt::format_to(out(), "load {} {}", type, access(instr.access)); break;
      case InstrKind::Constant:
        if (is_float(static_cast<DType>(instr.dtype)))
          fmt::format_to(out(), "const {} {}", type, instr.constant_float);
        else
          fmt::format_to(out(), "const {} {}", type, instr.constant_int);
        break;
      case InstrKind::Op:
        fmt::format_to(out(), "{} {}", to_string(static_cast<ScalarOp>(instr.op)), type);
        if (instr.precision != plan::fb::Precision::Full)
          fmt::format_to(out(), " for {}",
                         instr.precision == plan::fb::Precision::Float16 ? "f16" : "bf16");
        for (const std::uint32_t arg : instr.args) fmt::format_to(out(), " %{}", arg);
        break;
      case InstrKind::Reduce:
        fmt::format_to(out(), "reduce_{} {} %{}", to_string(static_cast<Combine>(instr.op)), type,
                       instr.args[0]);
        break;
      case InstrKind::Scan:
        fmt::format_to(out(), "scan_{}{} {} %{}", to_string(static_cast<Combine>(instr.op)),
                       instr.exclusive ? "_exclusive" : "", type, instr.args[0]);
        break;
      case InstrKind::Index: fmt::format_to(out(), "index {} i{}", type, instr.dim); break;
      case InstrKind::Size:
        fmt::format_to(out(), "size {} {}", type, exprs_.dim(instr.expression).to_string());
        break;
      case InstrKind::Store:
      case InstrKind::Scatter: break;
    }
    text_ += '\n';
  }

  /// "(seq + 1)": parenthesized if a multiplication would bind tighter.
  std::string factor(std::uint32_t expression) {
    const Dim& dim = exprs_.dim(expression);
    const bool single = dim.terms().size() <= 1;
    return single ? dim.to_string() : "(" + dim.to_string() + ")";
  }

  std::string access(std::uint32_t index) {
    const AccessT& access = *program_.accesses[index];
    std::string address;
    const auto add = [&](const std::string& term) {
      address += (address.empty() ? "" : " + ") + term;
    };
    const auto add_product = [&](std::uint32_t stride, const std::string& what) {
      const Dim& dim = exprs_.dim(stride);
      if (dim == ir::Dim(0)) return;
      add(dim == ir::Dim(1) ? what : factor(stride) + "*" + what);
    };
    for (std::size_t d = 0; d < access.strides.size(); ++d)
      add_product(access.strides[d], fmt::format("i{}", d));
    for (const auto& gather : access.gathers)
      add_product(gather.stride(), fmt::format("%{}[of {}]", gather.value(),
                                               exprs_.dim(gather.extent()).to_string()));
    for (const std::uint32_t node : access.nonaffine) add(index_node(node));
    const Dim& offset = exprs_.dim(access.offset);
    if (offset != ir::Dim(0) || address.empty()) add(offset.to_string());
    std::string text = fmt::format("b{}[{}]", program_.buffers[access.buffer], address);
    for (std::size_t g = 0; g < access.guards.size(); ++g)
      text += fmt::format("{}0 <= {} < {}", g == 0 ? " if " : " and ",
                          index_node(access.guards[g].index()),
                          exprs_.dim(access.guards[g].extent()).to_string());
    if (!access.guards.empty()) text += fmt::format(" else {}", access.fill);
    return text;
  }

  std::string index_node(std::uint32_t index) {
    const plan::fb::IndexNode& node = program_.index_nodes[index];
    const auto infix = [&](std::string_view sign) {
      return fmt::format("({} {} {})", index_node(node.a()), sign, index_node(node.b()));
    };
    const auto call = [&](std::string_view name) {
      return fmt::format("{}({}, {})", name, index_node(node.a()), index_node(node.b()));
    };
    switch (node.op()) {
      case ExprOp::Constant: return factor(node.a());
      case ExprOp::Symbol: return fmt::format("i{}", node.a());
      case ExprOp::Add: return infix("+");
      case ExprOp::Sub: return infix("-");
      case ExprOp::Mul: return infix("*");
      case ExprOp::FloorDiv: return call("floordiv");
      case ExprOp::Min: return call("min");
      case ExprOp::Max: return call("max");
    }
    return "?";
  }

  const LoopProgramT& program_;
  const ExprTable& exprs_;
  std::string text_;
};

}  // namespace

std::string print_loop_program(const LoopProgramT& program, const ExprTable& exprs) {
  return Printer(program, exprs).print();
}

}  // namespace sinter::codegen
