// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sinter/error.h>

#include "codegen/emit/kernel_text.h"
#include "codegen/families/attention/attention_problem_text.h"
#include "codegen/families/attention/scores/attention_scores.h"
#include "codegen/families/loops/body/body_writer.h"
#include "codegen/families/loops/schedule_parts.h"
#include "runtime/plan/loop_values.h"

namespace sinter::codegen {
namespace {

using plan::fb::InstrKind;

ScalarOp op_of(const InstrT& instr) { return static_cast<ScalarOp>(instr.op); }

InstrT& store_of(LoopProgramT& scores) {
  for (const auto& instr : scores.instrs)
    if (instr->kind == InstrKind::Store &&
        scores.buffers[scores.accesses[instr->access]->buffer] == kScoreValue)
      return *instr;
  throw Error(ErrorCode::kInternal, "a program of scores makes none");
}

/// Takes a positive factor behind the program out of it: the kernel applies it with the
/// exponential.
double take_factor(LoopProgramT& scores) {
  InstrT& store = store_of(scores);
  const InstrT& last = *scores.instrs[store.args[0]];
  if (last.kind != InstrKind::Op || op_of(last) != ScalarOp::kMul) return 1;
  for (const std::size_t i : {0, 1}) {
    const InstrT& by = *scores.instrs[last.args[i]];
    const double factor = by.constant_float;
    if (by.kind != InstrKind::Constant || !(factor >= 1e-6 && factor <= 1e6)) continue;
    store.args[0] = last.args[1 - i];
    return factor;
  }
  return 1;
}

/// Weights are rounded to 16 bits: functions need not be more precise than their graph's 16-bit
/// forms.
void shorten_functions(LoopProgramT& scores) {
  for (const auto& instr : scores.instrs)
    if (instr->kind == InstrKind::Op && static_cast<DType>(instr->dtype) == DType::kFloat32 &&
        instr->args.size() == 1 && op_of(*instr) != ScalarOp::kCast)
      instr->precision = plan::fb::Precision::Float16;
}

/// Whether finite scores may become infinite in base 2, as those that a mask replaces by the lowest
/// number.
bool may_be_lowest(const LoopProgramT& scores, const std::vector<DType>& types) {
  constexpr double kLarge = 1e30;
  return std::ranges::any_of(scores.instrs, [&](const auto& instr) {
    if (instr->kind == InstrKind::Constant)
      return std::isfinite(instr->constant_float) && std::abs(instr->constant_float) > kLarge;
    if (instr->kind != InstrKind::Load) return false;
    const std::uint32_t buffer = scores.accesses[instr->access]->buffer;
    return !plan::is_of_scores(scores.buffers[buffer]) && is_float(types[buffer]) &&
           types[buffer] != DType::kFloat16;
  });
}

}  // namespace

ScoreText score_text(const AttentionProgram& attention, const std::string& name,
                     AttentionParameters& args, const KernelRequest& facts, ExprTable& exprs) {
  LoopProgramT scores = *attention.scores;
  ScoreText result;
  result.front = attention.scale;
  result.behind = take_factor(scores);
  if (!facts.precise && !attention.is_float32()) shorten_functions(scores);
  const auto number_of = [&](std::uint32_t buffer) {
    return static_cast<std::uint32_t>(std::ranges::find(attention.buffers, buffer) -
                                      attention.buffers.begin());
  };
  KernelRequest own{&scores, name, {}, {}};
  own.precise = facts.precise;
  own.device = facts.device;
  own.buffer_types = attention.score_types;
  const ProgramAnalysis analysis(own, exprs);
  Arguments parameters(analysis);
  const DimSet all = analysis.outer_dims() | analysis.inner_dims();
  ThreadMapping mapping =
      start_mapping(analysis, with_vectors(no_vectors(analysis), PointwiseParameters{}), all, 0);
  std::vector<std::string> fields, values;
  if (attention.bounds) {
    fields.push_back("i32 begin");
    values.push_back("tile.begin");
  }
  // Of one token and one sequence all rows are the token's.
  const bool has_one_token = attention.tables && !attention.bounds && attention.group_axis;
  const std::size_t rank = analysis.rank();
  for (std::size_t d = 0, axis = 0; d < rank; ++d) {
    LoopIndex& index = mapping.indices[d];
    index.max = upper(analysis, analysis.extent(d));
    if (index.max) *index.max = std::max<std::int64_t>(*index.max - 1, 0);
    const bool in_rows = attention.group_axis == d;
    // Rows and keys of packed sequences count from their start; keys in tables do, too.
    const bool from_begin = attention.bounds && (d + 2 == rank || !attention.tables);
    const char* const begin = from_begin ? "begin + " : "";
    if (d + 1 == rank) {
      index.text = fmt::format("({}key)", begin);
    } else if (d + 2 == rank) {
      index.text = has_one_token         ? "0"
                   : attention.group > 1 ? fmt::format("({}row / {})", begin, attention.group)
                                         : fmt::format("({}row)", begin);
    } else if (in_rows) {
      index.text = has_one_token ? "(row)" : fmt::format("(row % {})", attention.group);
    } else {
      index.text = fmt::format("b{}", axis);
      if (reads_loop(scores, exprs, d)) {
        fields.push_back(fmt::format("i32 b{}", axis));
        values.push_back(fmt::format("i32(b{})", axis));
      }
    }
    if (d + 2 < rank && !in_rows) ++axis;
  }
  for (std::size_t i = 0; i < analysis.instr_count(); ++i)
    if (analysis.instr(i).kind == InstrKind::Load &&
        scores.buffers[analysis.access(analysis.instr(i).access).buffer] == kScoreValue)
      mapping.gemm.products.push_back({i, "score", "", ""});
  const std::string body = write_body(analysis, mapping, parameters);
  std::size_t at = 0;
  for (const auto& arg : parameters.kernel_args()) {
    std::string field = parameters.parameters()[at++];
    if (arg.kind() == ArgKind::Buffer) {
      if (plan::is_of_scores(arg.index())) continue;
      if (number_of(arg.index()) == attention.buffers.size())
        throw Error(
            ErrorCode::kUnsupported,
            fmt::format("attention '{}': its scores depend on a size that the run finds", name));
      constexpr std::string_view kRestrict = " __restrict__";
      if (const auto found = field.find(kRestrict); found != std::string::npos)
        field.erase(found, kRestrict.size());
      values.push_back(args.buffer(number_of(arg.index())));
    } else {
      values.push_back(fmt::format("{}({})", arg.kind() == ArgKind::Int64 ? "i64" : "i32",
                                   args.size(arg.index())));
    }
    fields.push_back(std::move(field));
  }
  std::string result_name, sink_name;
  bool reads = false;
  for (std::size_t b = 0; b < scores.buffers.size(); ++b) {
    if (scores.buffers[b] == kScoreValue) result_name = parameters.buffer(b);
    if (scores.buffers[b] == kSinkValue) sink_name = parameters.buffer(b);
    reads = reads || !plan::is_of_scores(scores.buffers[b]);
  }
  result.declaration = fmt::format(
      "\nstruct {} {{\n  static constexpr bool kMakes = true, kReads = {}, kSinks = {};\n", name,
      reads, !sink_name.empty());
  for (const std::string& field : fields) result.declaration += fmt::format("  {};\n", field);
  std::string made = result_name + "[0]";
  if (may_be_lowest(scores, own.buffer_types)) made = fmt::format("finite_in_base_2({})", made);
  std::string results = result_name + "[1]";
  if (!sink_name.empty()) results += fmt::format(", {}[1]", sink_name);
  const auto function = [&](const char* signature, const std::string& returned) {
    result.declaration +=
        fmt::format("  SINTER_DEVICE float {} const {{\n  float {};\n{}  return {};\n  }}\n",
                    signature, results, body, returned);
  };
  function("operator()(float score, i32 row, i32 key)", made);
  if (!sink_name.empty())
    function("sink(i32 row, i32 key = 0, float score = 0)", sink_name + "[0]");
  result.declaration += "};\n";
  result.value = fmt::format("{{{}}}", fmt::join(values, ", "));
  return result;
}

}  // namespace sinter::codegen
