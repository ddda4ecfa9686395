#include "codegen/cuda/emit_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sinter/error.h>

#include "codegen/cuda/arguments.h"
#include "codegen/cuda/attention_schedule.h"
#include "codegen/cuda/kernel_text.h"

namespace sinter::codegen {
namespace {

using ir::Dim;

/// The kernel's parameters: its buffers, then the sizes that are not constant.
class Parameters {
 public:
  Parameters(const AttentionProgram& program, ExprTable& exprs)
      : exprs_(exprs), result_(program.y.buffer) {
    std::vector<DType> types(program.buffers.size());
    for (const AttentionOperand* operand :
         {&program.q, &program.k, &program.v, &program.y, program.mask ? &*program.mask : nullptr})
      if (operand != nullptr) types[operand->buffer] = operand->dtype;
    for (std::size_t b = 0; b < types.size(); ++b) {
      const bool written = b == result_;
      names_.push_back(buffer(static_cast<std::uint32_t>(b)));
      texts_.push_back(fmt::format("{}{}* __restrict__ {}", written ? "" : "const ",
                                   storage_name(types[b]), names_.back()));
      args_.emplace_back(plan::fb::ArgKind::Buffer, program.buffers[b]);
    }
  }

  std::string buffer(std::uint32_t b) const { return b == result_ ? "y" : fmt::format("x{}", b); }

  /// A literal, or a parameter that is added on first use. All sizes are 64 bits wide: a block
  /// computes a few addresses once.
  std::string dim(const Dim& dim) {
    if (dim.is_constant()) return int_literal(dim.value());
    const std::uint32_t expression = exprs_.intern(dim);
    const auto known = sizes_.find(expression);
    if (known != sizes_.end()) return known->second;
    const std::string name = fmt::format("n{}", sizes_.size());
    sizes_.emplace(expression, name);
    names_.push_back(name);
    texts_.push_back(fmt::format("i64 {} /* {} */", name, comment_text(dim.to_string())));
    args_.emplace_back(plan::fb::ArgKind::Int64, expression);
    return name;
  }

  /// "const f16* __restrict__ x0", and "x0": one for each parameter.
  const std::vector<std::string>& texts() const { return texts_; }
  const std::vector<std::string>& names() const { return names_; }
  const std::vector<plan::fb::KernelArg>& args() const { return args_; }

 private:
  ExprTable& exprs_;
  std::uint32_t result_;
  std::vector<std::string> texts_;
  std::vector<plan::fb::KernelArg> args_;
  std::map<std::uint32_t, std::string> sizes_;
  std::vector<std::string> names_;
};

std::string float_literal(double value) {
  if (std::isinf(value)) return value < 0 ? "-infinity()" : "infinity()";
  const std::string digits = fmt::format("{}", static_cast<float>(value));
  return digits + (digits.find_first_of(".e") == std::string::npos ? ".0f" : "f");
}

/// A finite score stays finite in base 2.
double in_base_2(double score) {
  const double most = std::numeric_limits<float>::max();
  return std::isinf(score) ? score : std::clamp(score / std::log(2.0), -most, most);
}

/// What all variants share: which rows of which head a block has, and where the operands lie.
class BlockText {
 public:
  BlockText(const AttentionProgram& program, Parameters& args) : p_(program), args_(args) {}

  std::string write() {
    line("AttentionProblem<Shape> p;");
    line(fmt::format("p.rows = i32({});", args_.dim(p_.rows)));
    line(fmt::format("p.keys = i32({});", args_.dim(p_.keys)));
    place();
    operand("q", p_.q);
    operand("k", p_.k);
    operand("v", p_.v);
    operand("y", p_.y);
    line(p_.mask ? fmt::format("p.mask = {};", address(*p_.mask)) : "p.mask = nullptr;");
    line(fmt::format("p.mask_row = {};", p_.mask ? args_.dim(p_.mask->row) : "0"));
    line(fmt::format("p.mask_key = {};", p_.mask ? args_.dim(p_.mask->column) : "0"));
    line(p_.causal == 2 ? "p.diagonal = p.keys - p.rows;" : "p.diagonal = 0;");
    line(fmt::format("p.scale = {};", float_literal(p_.scale)));
    line(fmt::format("p.fill = {};", float_literal(in_base_2(p_.fill))));
    line("attend(p);");
    return std::move(text_);
  }

 private:
  void line(const std::string& text) { text_ += "  " + text + "\n"; }

  /// Causal rows at the end see the most keys: they go first.
  void place() {
    line("const u32 tiles = (p.rows + Shape::kRows - 1) / Shape::kRows;");
    line(fmt::format("p.first_row = ({}blockIdx.x % tiles) * Shape::kRows;",
                     p_.causal != 0 ? "tiles - 1 - " : ""));
    if (!p_.batch.empty())
      line(fmt::format("{}u32 head = blockIdx.x / tiles;", p_.batch.size() > 1 ? "" : "const "));
    for (std::size_t axis = p_.batch.size(); axis-- > 1;) {
      const std::string extent = args_.dim(p_.batch[axis]);
      line(fmt::format("const i64 b{} = head % u32({});", axis, extent));
      line(fmt::format("head /= u32({});", extent));
    }
    if (!p_.batch.empty()) line("const i64 b0 = head;");
  }

  std::string address(const AttentionOperand& operand) {
    std::string text = args_.buffer(operand.buffer);
    if (operand.offset != Dim(0)) text += " + " + args_.dim(operand.offset);
    for (std::size_t axis = 0; axis < p_.batch.size(); ++axis)
      if (operand.batch[axis] != Dim(0))
        text += operand.batch[axis] == Dim(1)
                    ? fmt::format(" + b{}", axis)
                    : fmt::format(" + b{} * {}", axis, args_.dim(operand.batch[axis]));
    return text;
  }

  void operand(const char* name, const AttentionOperand& operand) {
    line(fmt::format("p.{} = {};", name, address(operand)));
    line(fmt::format("p.{}_stride = {};", name, args_.dim(operand.row)));
  }

  const AttentionProgram& p_;
  Parameters& args_;
  std::string text_;
};

std::string shape_text(const AttentionProgram& p, const AttentionSchedule& s) {
  const auto part = [](const char* name, auto value) {
    return fmt::format("/*{}*/ {}", name, value);
  };
  const std::string indent(25, ' ');
  std::string text =
      fmt::format("  typedef AttentionShape<{}, {}, {}, {},\n", storage_name(p.dtype),
                  p.mask ? storage_name(p.mask->dtype) : "NoMask", part("head", p.head),
                  part("values", p.value_head));
  text += indent + fmt::format("{}, {}, {},\n", part("row warps", s.row_warps),
                               part("row tiles", s.row_tiles), part("groups", s.key_groups));
  text += indent + fmt::format("{}, {}, {},\n", part("keys", s.keys), part("vector", s.vector),
                               part("pairs", s.pairs));
  text += indent + fmt::format("{}, {},\n", part("mask rows", p.mask && p.mask->row != Dim(0)),
                               part("mask keys", p.mask && p.mask->column != Dim(0)));
  text += indent +
          fmt::format("{}, {}> Shape;\n", part("causal", p.causal != 0), part("guard", p.guard));
  return text + fmt::format(
                    "  static_assert(Shape::kSharedBytes == {}, \"what the launch "
                    "reserves\");\n",
                    attention_shared_bytes(p, s));
}

}  // namespace

EmittedKernel emit_attention(const AttentionProgram& program, const std::string& name,
                             const std::vector<std::string>& origins, ExprTable& exprs,
                             bool early) {
  if (std::string reason; !can_schedule_attention(program, reason))
    throw Error(ErrorCode::kUnsupported,
                fmt::format("attention '{}' has no CUDA kernel: {}", name, reason));
  const std::vector<AttentionSchedule> schedules = choose_attention(program, exprs);
  Parameters args(program, exprs);
  const std::string wait = early ? "  allow_next_kernel();\n  wait_for_previous_kernel();\n" : "";
  const std::string block = wait + BlockText(program, args).write();
  Dim heads = 1;
  for (const Dim& extent : program.batch) heads = heads * extent;
  EmittedKernel kernel;
  std::string text = kernel_heading(name, origins) + "#include \"attention.cuh\"\n";
  if (early) text += "#include \"cluster.cuh\"\n";
  text += fmt::format("\ntemplate <class Shape>\nSINTER_DEVICE void\n{} {{\n{}}}\n",
                      signature_text(name + "_block", args.texts()), block);
  const std::string call =
      fmt::format("  {}_block<Shape>({});\n", name, fmt::join(args.names(), ", "));
  for (std::size_t s = 0; s < schedules.size(); ++s) {
    const AttentionSchedule& schedule = schedules[s];
    auto variant = std::make_unique<plan::fb::KernelVariantT>();
    variant->conditions = schedule.conditions;
    variant->function = s == 0 ? name : fmt::format("{}_v{}", name, s);
    const Dim tiles = ir::ceil_div(program.rows, schedule.rows(), exprs.ranges());
    variant->grid = {exprs.intern(tiles * heads), exprs.intern(1), exprs.intern(1)};
    variant->block = {static_cast<std::uint32_t>(schedule.threads()), 1, 1};
    variant->shared_bytes = attention_shared_bytes(program, schedule);
    variant->schedule = schedule.to_string();
    variant->overlaps = early;
    text += fmt::format("\n// schedule: {}\n", variant->schedule);
    if (!schedule.conditions.empty())
      text += fmt::format("// where {}\n", conditions_text(schedule.conditions, exprs));
    text += fmt::format("extern \"C\" __global__ void __launch_bounds__({})\n{} {{\n{}}}\n",
                        schedule.threads(), signature_text(variant->function, args.texts()),
                        shape_text(program, schedule) + call);
    kernel.step.variants.push_back(std::move(variant));
  }
  kernel.source = std::move(text);
  kernel.step.args = args.args();
  return kernel;
}

}  // namespace sinter::codegen
