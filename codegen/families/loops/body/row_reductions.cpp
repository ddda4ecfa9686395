// SPDX-License-Identifier: Apache-2.0
#include "codegen/families/loops/body/row_reductions.h"

#include <fmt/format.h>

namespace sinter::codegen {

using plan::fb::InstrKind;

std::uint32_t reduction_shared_bytes(const ProgramAnalysis& analysis,
                                     const ThreadMapping& mapping) {
  const RowReduction& reduction = mapping.reduction;
  if (reduction.scratch_offset == 0) return 0;
  const std::size_t values = analysis.live(plan::fb::InstrKind::Reduce).size() * reduction.scratch;
  return reduction.scratch_offset +
         static_cast<std::uint32_t>(values) * RowReduction::kScratchValue;
}

void RowReductions::declare_shared() {
  if (how_.scratch == 0) return;
  for (const std::size_t i : s_.live)
    if (s_.is_reduction_or_scan(i))
      s_.code.line(fmt::format("__shared__ {} s{}[{}];", text_.type(i), i, how_.scratch));
}

void RowReductions::declare_dynamic() {
  std::uint32_t offset = how_.scratch_offset;
  const bool sends = !how_.expect.empty();
  for (const std::size_t i : s_.live) {
    if (s_.analysis.instr(i).kind != InstrKind::Reduce) continue;
    s_.code.line(fmt::format("{0}* const s{1} = reinterpret_cast<{0}*>(shared + {2});",
                             text_.type(i), i, offset));
    if (sends)
      s_.code.line(fmt::format("{}<{}>(s{});", how_.expect, how_.reduce_sizes.substr(2), i));
    offset += static_cast<std::uint32_t>(how_.scratch) * RowReduction::kScratchValue;
  }
  if (sends) s_.code.line("cluster_arrive();");
}

void RowReductions::declare_carries() {
  for (const std::size_t i : s_.live)
    if (s_.analysis.instr(i).kind == InstrKind::Scan)
      s_.code.line(fmt::format("{} c{} = {};", text_.type(i), i, text_.identity(i)));
}

void RowReductions::declare_results(const InstrSet& needed, int stage) {
  for (const std::size_t i : members(needed)) {
    const std::string type = text_.type(i);
    if (s_.kept[i] && s_.analysis.value(i).stage == stage)
      s_.code.line(
          fmt::format("{} h{}{}{};", type, i, text_.vectors_size(), text_.elements_size()));
    if (s_.analysis.instr(i).kind == InstrKind::Scan && s_.analysis.value(i).stage == stage)
      s_.code.line(fmt::format("{0} q{1} = b{1};", type, i));
    if (!s_.accumulates_in(i, stage)) continue;
    if (!s_.has_vector_sums()) {
      s_.code.line(fmt::format("{} a{} = {};", type, i, text_.identity(i)));
      continue;
    }
    s_.code.line(fmt::format("{} a{}[{}];", type, i, s_.vector()));
    out_.open_elements();  // independent accumulators: shorter chains, smaller errors
    s_.code.line(fmt::format("a{}[j] = {};", i, text_.identity(i)));
    out_.close_elements();
  }
}

void RowReductions::combine(int stage) {
  std::size_t scan = 0;
  for (const std::size_t i : s_.live) {
    const bool is_scan = s_.analysis.instr(i).kind == InstrKind::Scan;
    const std::string line =
        is_scan && how_.scan_line ? fmt::format(", line.of({}), line", scan++) : "";
    if (!s_.accumulates_in(i, stage)) continue;
    const std::string combine = text_.combine(i);
    const std::string scratch = how_.scratch > 0 ? fmt::format(", s{}", i) : "";
    std::string sum = fmt::format("a{}", i);
    if (is_scan) {
      s_.code.line(fmt::format("const {0} b{1} = {2}<{3}{4}>(a{1}, c{1}{5}{6});", text_.type(i), i,
                               how_.scan, combine, how_.scan_sizes, scratch, line));
    } else if (s_.has_row_vectors()) {
      if (!how_.reduce.empty())
        s_.code.line(
            fmt::format("{}<{}{}>({}, s{});", how_.reduce, combine, how_.reduce_sizes, sum, i));
      s_.names[i] = sum + (s_.in_loop(i) ? "[j]" : "[0]");
    } else {
      if (s_.has_vector_sums()) {
        s_.code.line("#pragma unroll");
        s_.code.line(
            fmt::format("for (int j = 1; j < {0}; ++j) a{1}[0] = {2}::of(a{1}[0], a{1}[j]);",
                        s_.vector(), i, combine));
        sum += "[0]";
      }
      if (!how_.reduce.empty())
        sum = fmt::format("{}<{}{}>({}{}{})", how_.reduce, combine, how_.reduce_sizes, sum, scratch,
                          how_.reduce_tail);
      out_.define(i, sum);
    }
  }
}

}  // namespace sinter::codegen
